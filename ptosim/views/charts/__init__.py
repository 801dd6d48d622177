"""Pictures of pages: charts with axes, units and legends in one style, and the page around them.

`Chart` is marks on two axes, `Lanes` is rows of spans over one: data, which become HTML that scales
to any width, since only the picture is stretched and never its text. `page` and `section` put them
together to one file that needs nothing else.
"""
