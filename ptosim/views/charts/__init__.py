"""Pictures of pages: charts with axes, units and legends in one style, and the page around them.

`chart` draws marks on two axes, `lanes` draws rows of spans over one; both return HTML that scales
to any width, since only the picture is stretched and never its text. `page` and `section` put them
together to one file that needs nothing else.
"""
