"""Bit-exact number formats and arithmetic: pure functions from arrays to arrays.

Nothing here knows tiles, memory or programs, and nothing here imports another ptosim module.

=================  ==============================================================================
module             job
=================  ==============================================================================
`formats`          element formats, the arrays that hold them
`codes`            decode and encode of the 8- and 4-bit floats
`rounding`         round to integral values, narrow to a smaller float in any rounding mode
`integers`         float to integer and integer to integer with saturation or wrap-around
`convert`          TCVT: one function per (source, destination, mode, saturation, target)
`mx`               MX TQUANT: group maxima, shared exponents, scales, element codes
`stochastic`       stochastic rounding of the MX elements, random words, Philox 4x32
`affine`           INT8 TQUANT and TDEQUANT
`transcendental`   exp, log, square root and relatives with one final rounding
`lanes`            the words of arithmetic: what each computes, lane by lane, by its rules
`elementwise`      remainders of tiles, integer powers
`cpu_model`        TCVT as the public CPU simulator computes it, defects included
=================  ==============================================================================
"""
