"""Instructions of the library in their C++ forms: destination first, enumerations and numbers among
the template arguments, scratch tiles named. Values are those of NumPy."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ptosim
from ptosim.ground.diagnostics.model import ProgramError
from ptosim.ground.errors import UsageError

_WAIT = "set_flag(PIPE_{0}, PIPE_{1}, EVENT_ID0); wait_flag(PIPE_{0}, PIPE_{1}, EVENT_ID0);\n"
_TYPES: dict[str, Any] = {
    "float": np.float32, "half": np.float16, "int32_t": np.int32, "int16_t": np.int16,
    "int8_t": np.int8, "uint8_t": np.uint8, "uint32_t": np.uint32, "uint16_t": np.uint16,
}  # fmt: skip
_COLUMN = "BLayout::ColMajor, 16, 1"
# Tiles: `name:type rows cols [valid columns or further template arguments]`; `>` is stored, `<` is
# loaded, others are scratch.
_F = ">d:float 16 64|<s:float 16 64"
_INTS = ">d:int16_t 16 64|<a:int16_t 16 64|<b:int16_t 16 64"
_TWO = ">d:float 16 64|<a:float 16 64|<b:float 16 64"
_ROW = ">d:float 16 1 " + _COLUMN + "|<s:float 16 64|t:float 16 64"
_BY_ROW = f">d:float 16 64|<a:float 16 64|<b:float 16 1 {_COLUMN}"
_BY_COL = ">d:float 16 64|<a:float 16 64|<b:float 1 64"
_PAD = ">d:{0} 16 64 BLayout::RowMajor, 16, 64, SLayout::NoneBox, 512, {1}|<s:{0} 16 64 60"
_SIGNS = (("EQ", "=="), ("NE", "!="), ("LT", "<"), ("LE", "<="), ("GT", ">"), ("GE", ">="))
_MASK = ">d:float 16 64|<a:float 16 64|<b:float 16 64|m:uint8_t 16 32|t:uint8_t 1 64"
_CASES: list[tuple[str, str, str]] = [
    (_F, "TABS(d, s);", "abs(s)"),
    (_F, "TNEG(d, s);", "-s"),
    (_F, "TRELU(d, s);", "np.maximum(s, 0)"),
    (_F, "TRECIP(d, s);", "np.float32(1) / s"),
    (_F, "TMOV(d, s);", "s"),
    (_F, "TADDS(d, s, 3);", "s + 3"),
    (_F, "TSUBS(d, s, 3.0);", "s - 3"),
    (_F, "TMULS(d, s, (float)3);", "s * 3"),
    (_F, "TMINS(d, s, 3.0f);", "np.minimum(s, 3)"),
    (_F, "TMAXS(d, s, 3.0f);", "np.maximum(s, 3)"),
    (_F, "TDIVS(d, 2.0f, s);", "np.float32(2) / s"),
    (_F, "TDIVS<DivAlgorithm::DEFAULT>(d, s, 2.0f);", "s / 2"),
    (_F, "TEXPANDS(d, 2.5f);", "s * 0 + 2.5"),
    (">d:int16_t 16 64|<s:int16_t 16 64", "TNOT(d, s);", "~s"),
    (">d:int16_t 16 64|<s:int16_t 16 64", "TANDS(d, s, 3);", "s & 3"),
    (">d:int16_t 16 64|<s:int16_t 16 64", "TSHLS(d, s, 3);", "s << 3"),
    (">d:int16_t 16 64|<s:int16_t 16 64|t:int16_t 16 64", "TXORS(d, s, 3, t);", "s ^ 3"),
    (_TWO, "TADD(d, a, b);", "a + b"),
    (_TWO, "TSUB(d, a, b);", "a - b"),
    (_TWO, "TMUL(d, a, b);", "a * b"),
    (_TWO, "TMIN(d, a, b);", "np.minimum(a, b)"),
    (_TWO, "TPARTMAX(d, a, b);", "np.maximum(a, b)"),
    (_TWO, "TSUBRELU(d, a, b);", "np.maximum(a - b, 0)"),
    (_TWO, "TADDC(d, a, b, a);", "a + b + a"),
    (_TWO, "TADDSC(d, a, 2.0f, b);", "a + 2 + b"),
    (_TWO, "TSUBSC(d, a, 2.0f, b);", "a - 2 + b"),
    (">d:int32_t 16 64|<a:int32_t 16 64|<b:int32_t 16 64", "TMAX(d, a, b);", "np.maximum(a, b)"),
    (">d:int16_t 16 64|<a:int16_t 16 64|<b:int16_t 16 64", "TSHR(d, a, b);",
         "a.view(np.uint16) >> b"),
    (">d:int16_t 16 64|<a:int16_t 16 64|<b:int16_t 16 64|t:int16_t 16 64", "TXOR(d, a, b, t);",
     "a ^ b"),
    (_ROW, "TROWSUM(d, s, t);", "s.sum(1, keepdims=True)"),
    (_ROW, "TROWMAX(d, s, t);", "s.max(1, keepdims=True)"),
    (">d:uint32_t 16 1 " + _COLUMN + "|<s:float 16 64|t:float 16 64", "TROWARGMAX(d, s, t);",
     "s.argmax(1)[:, None]"),
    (">d:float 1 64|<s:float 16 64", "TCOLMAX(d, s);", "s.max(0, keepdims=True)"),
    (">d:float 1 64|<s:float 16 64|t:float 16 64", "TCOLSUM(d, s, t, true);",
     "s.sum(0, keepdims=True)"),
    (_BY_ROW, "TROWEXPANDADD(d, a, b);", "a + b"),
    (_BY_ROW, "TROWEXPANDDIV<DivAlgorithm::DEFAULT>(d, a, b);", "a / b"),
    (f">d:float 16 64|<b:float 16 1 {_COLUMN}", "TROWEXPAND(d, b);", "b + np.zeros((16, 64))"),
    (_BY_COL, "TCOLEXPANDMUL(d, a, b);", "a * b"),
    (">d:float 64 16|<s:float 16 64|t:float 16 64", "TTRANS(d, s, t);", "s.T"),
    (_MASK, "TCMP(m, a, b, CmpMode::LT); pipe_barrier(PIPE_V); TSEL(d, m, a, b, t);",
     "np.minimum(a, b)"),
    # The library writes each row of a mask at the row stride of its tile, where TSELS reads it.
    (_MASK, "TCMPS(m, a, 4.0f, CmpMode::GE); pipe_barrier(PIPE_V); TSELS(d, m, a, t, 2.0f);",
     "np.where(a >= 4, a, 2)"),
    (">d:half 16 64|<s:float 16 64", "TCVT(d, s, RoundMode::CAST_RINT);", "s.astype(np.float16)"),
    (">d:int16_t 16 64|<s:float 16 64", "TCVT(d, s, RoundMode::CAST_TRUNC, SaturationMode::ON);",
     "s.astype(np.int16)"),
    # A number that equals one of the template arguments is an argument all the same.
    (">d:float 32 32", "TTRI<0>(d, 0);", "np.tril(np.ones((32, 32)))"),
    (">d:float 16 64|<s:float 16 64|<i:int32_t 16 64|t:int32_t 16 64", "TGATHER(d, s, i, t);",
     "s.ravel()[i]"),
    (">d:float 16 32|<s:float 16 64", "TGATHER<MaskPattern::P0101, GatherAxis::ROW>(d, s);",
     "s[:, ::2]"),
    (">d:float 16 32|e:float 16 32|<s:float 16 64", "TDEINTERLEAVE(e, d, s);", "s[:, ::2]"),
    (">d:float 8 32|<s:float 16 64", "TEXTRACT(d, s, 4, 32);", "s[4:12, 32:]"),
    (">d:float 8 32|<s:float 16 64", "TEXTRACT(d, s);", "s[:8, :32]"),
    (">d:float 8 32|e:float 8 32|<s:float 16 64", "TEXTRACT(e, d, s, 0, 0, 4, 32);",
     "s[4:12, 32:]"),
    (">d:float 16 128|<a:float 16 64|<b:float 16 64", "TCONCAT_IMPL(d, a, b);",
     "np.concatenate([a, b], 1)"),
    (_PAD.format("float", "PadValue::Zero"), "TFILLPAD(d, s);", "np.pad(s, ((0, 0), (0, 4)))"),
    # The library pads with infinity, the assembler's expansions with the largest finite value.
    (_PAD.format("float", "PadValue::Max"), "TFILLPAD(d, s);",
     "np.pad(s, ((0, 0), (0, 4)), constant_values=np.inf)"),
    (_PAD.format("float", "PadValueCustom(2.5f)"), "TFILLPAD(d, s);",
     "np.pad(s, ((0, 0), (0, 4)), constant_values=2.5)"),
    (_PAD.format("half", "PadCustom<2.5f>"), "TFILLPAD(d, s);",
     "np.pad(s, ((0, 0), (0, 4)), constant_values=2.5)"),
    (_PAD.format("int32_t", "PadCustom<-7>"), "TFILLPAD(d, s);",
     "np.pad(s, ((0, 0), (0, 4)), constant_values=-7)"),
    (f">d:float 16 64|<s:int8_t 16 64|<q:float 16 1 {_COLUMN}|<o:float 16 1 {_COLUMN}",
     "TDEQUANT(d, s, q, o);", "(s - o) * q"),
    # The rest of the names that the headers have: each at least once.
    (_F, "TEXP(d, s);", "np.exp(s)"),
    (_F, "TLOG<LogAlgorithm::DEFAULT>(d, s);", "np.log(s)"),
    (_F, "TSQRT<SqrtAlgorithm::DEFAULT>(d, s);", "np.sqrt(s)"),
    (_F + "|t:float 1 64", "TRSQRT(d, s, t);", "1 / np.sqrt(s)"),
    (_F, "TLRELU(d, s, 0.5f);", "s"),
    (_F, "TFMODS(d, s, 4.0f);", "np.fmod(s, 4)"),
    (_F, "TADDS(d, s, 1.0f); pipe_barrier(PIPE_V); TAXPY(d, s, 2.0f);", "3 * s + 1"),
    (_F + "|t:float 16 64", "TREMS(d, s, 4.0f, t);", "np.mod(s, 4)"),
    (_F + "|t:float 16 64", "TPOWS<PowAlgorithm::DEFAULT>(d, s, 2.0f, t);", "s * s"),
    (_F, "TPRINT<PrintFormat::Width8_Precision4>(s); TMOV(d, s);", "s"),
    (">d:int16_t 16 64|<s:int16_t 16 64", "TORS(d, s, 3);", "s | 3"),
    (">d:int16_t 16 64|<s:int16_t 16 64", "TSHRS(d, s, 1);", "s >> 1"),
    (_INTS, "TAND(d, a, b);", "a & b"),
    (_INTS, "TOR(d, a, b);", "a | b"),
    (_INTS, "TSHL(d, a, b);", "a << b"),
    (_TWO, "TDIV<DivAlgorithm::DEFAULT>(d, a, b);", "a / b"),
    (_TWO, "TFMOD(d, a, b);", "np.fmod(a, b)"),
    (_TWO, "TPARTADD(d, a, b);", "a + b"),
    (_TWO, "TPARTMUL(d, a, b);", "a * b"),
    (_TWO, "TPARTMIN(d, a, b);", "np.minimum(a, b)"),
    (_TWO, "TSUBC(d, a, b, a);", "a - b + a"),
    (_TWO, "TMOV(d, a); pipe_barrier(PIPE_V); TFUSEDMULADD(d, a, b);", "a * a + b"),
    (_TWO, "TNEG(d, a); pipe_barrier(PIPE_V); TFUSEDMULADDRELU(d, a, b);",
     "np.maximum(b - a * a, 0)"),
    (_TWO, "TMOV(d, a); pipe_barrier(PIPE_V); TMULADDDST(d, a, b);", "a * b + a"),
    (_TWO + "|t:float 16 64", "TREM(d, a, b, t);", "np.mod(a, b)"),
    (_TWO + "|t:float 16 64", "TPOW(d, a, b, t);", "a ** b"),
    (_TWO + "|t:uint8_t 16 64", "TNEG(d, a); pipe_barrier(PIPE_V); TPRELU(d, d, b, t);", "-a * b"),
    (">d:half 16 64|<a:float 16 64|<b:float 16 64", "TADDRELUCONV(d, a, b);", "a + b"),
    (">d:half 16 64|<a:float 16 64|<b:float 16 64", "TSUBRELUCONV(d, a, b);",
     "np.maximum(a - b, 0)"),
    (">d:half 16 64|<a:int32_t 16 64|<b:int32_t 16 64|t:float 16 64",
     "TADDDEQRELU(d, a, b, 0.5f, t);", "(a + b) * 0.5"),
    (_ROW, "TROWMIN(d, s, t);", "s.min(1, keepdims=True)"),
    (_ROW.replace("16 64", "16 8"), "TROWPROD(d, s, t);", "s.prod(1, keepdims=True)"),
    (">d:uint32_t 16 1 " + _COLUMN + "|<s:float 16 64|t:float 16 64", "TROWARGMIN(d, s, t);",
     "s.argmin(1)[:, None]"),
    (">d:float 16 1 " + _COLUMN + "|i:uint32_t 16 1 " + _COLUMN + "|<s:float 16 64|t:float 16 64",
     "TROWARGMAX(d, i, s, t);", "s.max(1, keepdims=True)"),
    (">d:uint32_t 1 64|<s:float 16 64|t:float 16 64", "TCOLARGMAX(d, s, t);",
     "s.argmax(0)[None]"),
    (">d:uint32_t 1 64|<s:float 16 64|t:float 16 64", "TCOLARGMIN(d, s, t);",
     "s.argmin(0)[None]"),
    (">d:float 1 64|<s:float 16 64", "TCOLMIN(d, s);", "s.min(0, keepdims=True)"),
    (">d:int32_t 1 64|<s:int32_t 4 64", "TCOLPROD(d, s);", "s.prod(0, keepdims=True)"),
    (">d:float 16 64|<s:float 1 64", "TCOLEXPAND(d, s);", "s + np.zeros((16, 64))"),
    *((_BY_ROW, f"TROWEXPAND{word}(d, a, b);", want) for word, want in (
        ("SUB", "a - b"), ("MUL", "a * b"), ("MAX", "np.maximum(a, b)"),
        ("MIN", "np.minimum(a, b)"), ("EXPDIF", "np.exp(a - b)"))),
    *((_BY_COL, f"TCOLEXPAND{word}(d, a, b);", want) for word, want in (
        ("ADD", "a + b"), ("SUB", "a - b"), ("MAX", "np.maximum(a, b)"),
        ("MIN", "np.minimum(a, b)"), ("EXPDIF", "np.exp(a - b)"))),
    (_BY_COL, "TCOLEXPANDDIV<DivAlgorithm::DEFAULT>(d, a, b);", "a / b"),
    (">d:float 16 32|<s:float 16 64", "TPAIRREDUCESUM(d, s);", "s[:, ::2] + s[:, 1::2]"),
    (">d:int32_t 1 64", "TCI<1>(d, 100); pipe_barrier(PIPE_ALL);", "100 - np.arange(64)[None]"),
    (">d:float 32 64 BLayout::RowMajor, 32, 64, SLayout::NoneBox, 512, PadValue::Zero|"
     "<s:float 16 64 60", "TFILLPAD_EXPAND(d, s);", "np.pad(s, ((0, 16), (0, 4)))"),
    (_PAD.format("float", "PadValue::Zero"),
     "TASSIGN(d, (uint64_t)s.data()); TFILLPAD_INPLACE(d, s);", "np.pad(s, ((0, 0), (0, 4)))"),
    (">d:float 16 64|<s:float 16 64|<i:int32_t 16 64",
     "TSCATTER(d, s, i); pipe_barrier(PIPE_ALL);", "_scattered(s, i)"),
    (">d:float 16 64|<s:float 16 64|<i:uint32_t 16 8",
     "TSHLS(i, i, 5); pipe_barrier(PIPE_V); TGATHERB(d, s, i);",
     "s.reshape(-1, 8)[i].reshape(16, 64)"),
    (">d:float 16 64|i:int32_t 16 64|<a:float 16 64|<b:float 16 64|<p:int32_t 16 64|<q:int32_t 16 64",
     "TPARTARGMAX(d, a, b, i, p, q);", "np.maximum(a, b)"),
    (">d:float 16 64|i:int32_t 16 64|<a:float 16 64|<b:float 16 64|<p:int32_t 16 64|<q:int32_t 16 64",
     "TPARTARGMIN(d, a, b, i, p, q);", "np.minimum(a, b)"),
    (">d:float 1 128|<s:float 1 64|<i:uint32_t 1 64|t:float 1 64",
     "TSORT32(d, s, i, t);", "_sorted(s, i)"),
    (">d:float 16 64|<s:float 8 32", "TEXPANDS(d, 0.0f); pipe_barrier(PIPE_V); TINSERT(d, s, 4, 32);",
     "np.pad(s, ((4, 4), (32, 0)))"),
    (">d:uint32_t 16 256|<s:uint16_t 16 64|<i:uint8_t 16 32", "THISTOGRAM<HistByte::BYTE_1>(d, s, i);",
     "np.full((16, 256), 64)"),
    (">d:float 16 64|e:float 16 64|<a:float 16 64|<b:float 16 64", "TINTERLEAVE(e, d, b, a);",
     "np.stack([a, b], -1).reshape(16, 128)[:, :64]"),
    (f">d:int8_t 16 64|<s:float 16 64|<q:float 16 1 {_COLUMN}|t:float 16 64",
     "TQUANT<QuantType::INT8_SYM>(d, s, q, t);", "s * q"),
    # Further forms of a row: precisions, scratch, second results, modes, defaults.
    *((_F, f"T{w}<{w.title()}Algorithm::HIGH_PRECISION>(d, s);", want) for w, want in (
        ("EXP", "np.exp(s)"), ("LOG", "np.log(s)"), ("SQRT", "np.sqrt(s)"),
        ("RECIP", "np.float32(1) / s"))),
    (_F, "TRSQRT<RsqrtAlgorithm::DEFAULT>(d, s);", "1 / np.sqrt(s)"),
    (_F + "|t:float 1 64", "TRSQRT<RsqrtAlgorithm::HIGH_PRECISION>(d, s, t);", "1 / np.sqrt(s)"),
    (_F, "TDIVS<DivAlgorithm::HIGH_PRECISION>(d, 2.0f, s);", "np.float32(2) / s"),
    (_TWO, "TDIV<DivAlgorithm::HIGH_PRECISION>(d, a, b);", "a / b"),
    (_TWO, "TFMOD<FmodAlgorithm::HIGH_PRECISION>(d, a, b);", "np.fmod(a, b)"),
    (_TWO + "|t:float 16 64", "TREM<RemAlgorithm::HIGH_PRECISION>(d, a, b, t);", "np.mod(a, b)"),
    (_TWO + "|t:float 16 64", "TPOW<PowAlgorithm::HIGH_PRECISION>(d, a, b, t);", "a ** b"),
    (_BY_COL, "TCOLEXPANDDIV<DivAlgorithm::HIGH_PRECISION>(d, a, b);", "a / b"),
    *((_BY_ROW + "|t:float 16 64", f"TROWEXPAND{word}(d, a, b, t);", want) for word, want in (
        ("ADD", "a + b"), ("SUB", "a - b"), ("MUL", "a * b"), ("DIV", "a / b"),
        ("MAX", "np.maximum(a, b)"), ("MIN", "np.minimum(a, b)"), ("EXPDIF", "np.exp(a - b)"))),
    ("v:float 16 1 " + _COLUMN + "|>d:uint32_t 16 1 " + _COLUMN + "|<s:float 16 64|t:float 16 64",
     "TROWARGMIN(v, d, s, t);", "s.argmin(1)[:, None]"),
    ("v:float 1 64|>d:uint32_t 1 64|<s:float 16 64|t:float 16 64", "TCOLARGMAX(v, d, s, t);",
     "s.argmax(0)[None]"),
    (">d:float 1 64|i:uint32_t 1 64|<s:float 16 64|t:float 16 64", "TCOLARGMIN(d, i, s, t);",
     "s.min(0)[None]"),
    *((_MASK, f"TCMP(m, a, b, CmpMode::{word}); pipe_barrier(PIPE_V); TSEL(d, m, b, a, t);",
       f"np.where(a {sign} b, b, a)") for word, sign in _SIGNS),
    *((_MASK, f"TCMPS(m, a, 4.0f, CmpMode::{word}); pipe_barrier(PIPE_V); TSELS(d, m, a, t, 2.0f);",
       f"np.where(a {sign} 4, a, 2)") for word, sign in _SIGNS),
    *((">d:int32_t 16 64|<s:float 16 64", f"TMULS(s, s, 0.5f); pipe_barrier(PIPE_V); "
       f"TCVT(d, s, RoundMode::CAST_{word});", want) for word, want in (
        ("RINT", "np.rint(s / 2)"), ("FLOOR", "np.floor(s / 2)"), ("CEIL", "np.ceil(s / 2)"),
        ("TRUNC", "np.trunc(s / 2)"), ("ROUND", "np.floor(s / 2 + 0.5)"),
        ("NONE", "np.trunc(s / 2)"))),  # the hardware's own towards integers
    (">d:half 16 64|<s:float 16 64", "TCVT(d, s, RoundMode::CAST_ODD);", "s"),
    *((">d:int16_t 16 64|<s:float 16 64|t:float 16 64", "TMULS(s, s, 20000.0f); "
       f"pipe_barrier(PIPE_V); TCVT(d, s, {words});", want) for words, want in (
        ("RoundMode::CAST_RINT", "(s * 20000).astype(np.int64)"),  # of this pair: what is left
        ("t, RoundMode::CAST_RINT, SaturationMode::OFF", "(s * 20000).astype(np.int64)"),
        ("RoundMode::CAST_RINT, SaturationMode::ON", "np.clip(s * 20000, -32768, 32767)"))),
    (">d:int32_t 1 64|t:int32_t 1 256", "TCI<false>(d, 100, t); pipe_barrier(PIPE_ALL);",
     "100 + np.arange(64)[None]"),
    (">d:float 32 32", "TTRI<1>(d, -2);", "np.triu(np.ones((32, 32)), -2)"),
    (">d:float 1 128|<s:float 1 64|<i:uint32_t 1 64", "TSORT32(d, s, i);", "_sorted(s, i)"),
    (">d:float 1 256|r:float 1 256|<s:float 1 128|<i:uint32_t 1 128",
     "TSORT32(r, s, i); pipe_barrier(PIPE_V); TMRGSORT(d, r, 64);", "_sorted(s, i, 128)"),
    (">d:float 16 64|<s:float 16 64|<i:int32_t 16 64", "TGATHER(d, s, i);", "s.ravel()[i]"),
    (">d:float 16 32|<s:float 16 64", "TGATHER<MaskPattern::P1010>(d, s);", "s[:, 1::2]"),
    (">d:float 8 64|<s:float 16 64", "TGATHER<MaskPattern::P0101, GatherAxis::COL>(d, s);",
     "s[::2]"),
    (">d:int32_t 16 64|<s:float 16 64|c:uint32_t 1 16|t:int32_t 16 64", "TEXPANDS(d, 0); "
     "pipe_barrier(PIPE_V); TGATHER<CmpMode::GT>(d, s, 3.0f, c, t, 0); pipe_barrier(PIPE_ALL);",
     "_packed(s > 3)"),
    (">d:float 16 64|<s:float 16 32", "TSCATTER<MaskPattern::P1010>(d, s);",
     "np.stack([0 * s, s], -1).reshape(16, 64)"),
    (">d:float 16 64|<s:float 8 64", "TSCATTER<MaskPattern::P0101, ScatterAxis::COL>(d, s);",
     "np.stack([s, 0 * s], 1).reshape(16, 64)"),
    *((">d:float 16 128|<a:float 16 64|<b:float 16 64|i:int32_t 16 8|o:int32_t 16 8",
       f"TEXPANDS(i, 256); pipe_barrier(PIPE_V); TCONCAT(d, a, b, {rest});",
       "np.concatenate([a, b], 1)") for rest in ("i, i", "o, i, i")),
    ("e:float 16 32|>d:float 16 32|<a:float 16 32|<b:float 16 32", "TDEINTERLEAVE(d, e, b, a);",
     "np.concatenate([a, b], 1)[:, 1::2]"),  # the second one first
    (">d:float 16 64|e:float 16 64|<a:float 16 64|<b:float 16 64", "TINTERLEAVE(d, e, b, a);",
     "np.stack([a, b], -1).reshape(16, 128)[:, 64:]"),
    (_PAD.format("float", "PadValue::Min"), "TFILLPAD<TFillPadMode::None>(d, s);",
     "np.pad(s, ((0, 0), (0, 4)), constant_values=-np.inf)"),
    (f">d:int8_t 16 64|<s:float 16 64|<q:float 16 1 {_COLUMN}",
     "TQUANT<QuantType::INT8_SYM>(d, s, q);", "s * q"),
    *((f">d:uint8_t 16 64|<s:float 16 64|<q:float 16 1 {_COLUMN}|<o:float 16 1 {_COLUMN}|"
       "t:float 16 64", f"TQUANT<QuantType::INT8_ASYM>(d, s, q, {rest}&o);", "s * q + o")
      for rest in ("", "t, ")),
    (">d:float 16 64|<s:float 8 32", "TEXPANDS(d, 0.0f); pipe_barrier(PIPE_V); TINSERT(d, s);",
     "np.pad(s, ((0, 8), (0, 32)))"),
    (">d:int32_t 16 64|<s:int32_t 16 64", "TABS(d, s);", "abs(s)"),
]  # fmt: skip
_ON_A5 = (
    "TDEINTERLEAVE",
    "TCMPS(m",
    "TROWEXPANDDIV",
    "TEXTRACT(e",
    "TINTERLEAVE",
    "THISTOGRAM",
    "TPOW<PowAlgorithm::HIGH",
)
_BYTES = {"float": 4, "int32_t": 4, "uint32_t": 4, "half": 2, "int16_t": 2, "uint16_t": 2}


def _scattered(s: np.ndarray, i: np.ndarray) -> np.ndarray:
    out = np.zeros_like(s)
    for place, value in zip(i.ravel(), s.ravel(), strict=True):
        out.ravel()[place] = value
    return out


def _packed(mask: np.ndarray) -> np.ndarray:
    """The places of each row that hold, one after the other; the rest is 0."""
    out = np.zeros(mask.shape, np.int32)
    for r, row in enumerate(mask):
        places = np.nonzero(row)[0]
        out[r, : len(places)] = r * mask.shape[1] + places
    return out


def _sorted(s: np.ndarray, i: np.ndarray, n: int = 32) -> np.ndarray:
    """Records of a value and its index, n at a time, the largest first."""
    order = np.argsort(-s.reshape(-1, n), 1, kind="stable") + n * np.arange(s.size // n)[:, None]
    records = [s.ravel()[order.ravel()], i.ravel()[order.ravel()].view(np.float32)]
    return np.stack(records, 1).reshape(1, -1)


def _kernel(tiles: str, call: str) -> tuple[str, dict[str, tuple[Any, ...]]]:
    """Return the text of a kernel that loads, calls and stores, with its arguments."""
    first, last, params, args, address = "", "", [], {}, 0
    for tile in tiles.split("|"):
        name, _, rest = tile.partition(":")
        type_, rows, cols, *more = rest.split(maxsplit=3)
        shape = [int(rows), int(cols)]
        words = more[0] if more else ""
        if words.isdigit():
            shape[1], words = int(words), f"BLayout::RowMajor, {rows}, {words}"
        plain = name.strip("<>")
        words = f", {words}" if words else ""
        first += f"Tile<TileType::Vec, {type_}, {rows}, {cols}{words}> {plain};\n"
        first += f"TASSIGN({plain}, {address:#x});\n"
        address += 512 * -(-int(rows) * int(cols) * _BYTES.get(type_, 1) // 512)
        if plain == name:
            continue
        params.append(f"__gm__ {type_} *p{plain}")
        args[f"p{plain}"] = (name[0], tuple(shape), _TYPES[type_])
        view = f"Shape<1, 1, 1, {shape[0]}, {shape[1]}>, Stride<1, 1, 1, {shape[1]}, 1>"
        first += f"GlobalTensor<{type_}, {view}> g{plain}(p{plain});\n"
        if name[0] == "<":
            first += f"TLOAD({plain}, g{plain});\n"
        else:
            last += f"TSTORE(g{plain}, {plain});\n"
    head = f"#include <pto/pto-inst.hpp>\nusing namespace pto;\nAICORE void k({', '.join(params)})"
    waits = _WAIT.format("MTE2", "V"), _WAIT.format("V", "MTE3")
    return f"{head} {{\n{first}{waits[0]}{call}\n{waits[1]}{last}}}\n", args


@pytest.mark.sampled(3, 100)
@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize(("tiles", "call", "want"), _CASES, ids=[c[1] for c in _CASES])
def test_an_instruction_in_its_cpp_form(tiles: str, call: str, want: str, target: str) -> None:
    if target == "a2a3" and call.startswith(_ON_A5):
        pytest.skip("one target is enough for what is said here of A5")
    text, given = _kernel(tiles, call)
    draw = np.random.default_rng(5)
    args = {n: np.zeros(shape, t) if way == ">" else draw.integers(1, 7, shape).astype(t)
            for n, (way, shape, t) in given.items()}  # fmt: skip
    program = ptosim.load(text, target=target, filename="k.cpp")
    got = program.run(args).outputs["pd"]
    known = {"np": np, "_scattered": _scattered, "_sorted": _sorted, "_packed": _packed}
    wanted = np.asarray(eval(want, {**known, **{k[1:]: v for k, v in args.items()}}))
    if any(word in want for word in ("exp(", "log(", "sqrt(", "**")):
        np.testing.assert_allclose(got, wanted.astype(got.dtype), rtol=1e-6)
    else:
        np.testing.assert_array_equal(got, wanted.astype(got.dtype))


def test_merged_lists_say_how_many_records_were_taken() -> None:
    """All of each list are, where the merge does not end as the first list ends."""
    tiles = ">d:float 1 256|t:float 1 256|<a:float 1 128|<b:float 1 128 96"
    call = """MrgSortExecutedNumList l; TMRGSORT<false>(d, l, t, a, b);
    pe[0] = l.mrgSortList0; pe[1] = l.mrgSortList1; pe[2] = l.mrgSortList2;"""
    text, given = _kernel(tiles, call)
    text = text.replace("void k(", "void k(__gm__ int32_t *pe, ")
    args = {n: np.zeros(shape, t) for n, (_, shape, t) in given.items()}
    program = ptosim.load(text, target="a5", filename="k.cpp")
    assert program.run({"pe": np.zeros(3, np.int32), **args}).outputs["pe"].tolist() == [64, 48, 0]
    records = np.zeros((2, 64, 2), np.float32)
    records[:, :, 0] = np.sort(np.random.default_rng(1).random((2, 64)), 1)[:, ::-1]
    records[0, :, 0] += 0.5
    args |= {"pa": records[0].reshape(1, -1), "pb": records[1, :48].reshape(1, -1)}
    below = (records[1, :48, 0] > records[0, -1, 0]).sum()  # before the first list is empty
    ends = text.replace("<false>", "<true>")
    for commit in ("program", "retire"):
        result = ptosim.load(ends, target="a5", filename="k.cpp").run(
            {"pe": np.zeros(3, np.int32), **args}, commit=commit
        )
        assert result.outputs["pe"].tolist() == [64, below, 0]
    with pytest.raises(ProgramError, match="mrgSortList0"):  # A2/A3 have nothing that reads it
        ptosim.load(ends, target="a2a3", filename="k.cpp")


_PRODUCT = """AICORE void k(__gm__ half *y, __gm__ int8_t *x, __gm__ uint64_t *q) {
    using namespace pto;
    GlobalTensor<int8_t, Shape<1, 1, 1, 32, 32>, Stride<1024, 1024, 1024, 32, 1>> gx(x);
    GlobalTensor<uint64_t, Shape<1, 1, 1, 1, 32>, Stride<32, 32, 32, 32, 1>> gq(q);
    GlobalTensor<half, Shape<1, 1, 1, 32, 32>, Stride<1024, 1024, 1024, 32, 1>> gy(y);
    Tile<TileType::Mat, int8_t, 32, 32, BLayout::ColMajor, 32, 32, SLayout::RowMajor> m;
    Tile<TileType::Mat, uint64_t, 1, 32> mq;
    Tile<TileType::Scaling, uint64_t, 1, 32> fp;
    TileLeft<int8_t, 32, 32> a;
    TileRight<int8_t, 32, 32> b;
    TileAcc<int32_t, 32, 32> c;
    TASSIGN(m, 0); TASSIGN(mq, 0x8000); TASSIGN(fp, 0); TASSIGN(a, 0); TASSIGN(b, 0); TASSIGN(c, 0);
    TLOAD(m, gx); TLOAD(mq, gq);
    PtoSetWaitFlag<PIPE_MTE2, PIPE_MTE1>(); PtoSetWaitFlag<PIPE_MTE2, PIPE_FIX>();
    TMOV(a, m); TMOV(b, m); TMOV(fp, mq);
    PtoSetWaitFlag<PIPE_MTE1, PIPE_M>();
    TMATMUL(c, a, b);
    PtoSetWaitFlag<PIPE_M, PIPE_FIX>();
    float scale = 0.5f;
    uint64_t bits = static_cast<uint64_t>(*reinterpret_cast<int32_t *>(&scale));
    STORE
}
"""


@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize(
    ("store", "least"),
    [
        ("TSTORE(gy, c, bits);", -np.inf),
        ("TSTORE_FP(gy, c, fp);", -np.inf),
        ("TSTORE_FP<AtomicType::AtomicNone, ReluPreMode::NormalRelu>(gy, c, fp);", 0),
        ("TSTORE<AtomicType::AtomicNone, ReluPreMode::NormalRelu>(gy, c, bits);", 0),
    ],
)
def test_a_product_is_scaled_and_clipped_as_it_is_stored(
    store: str, least: float, target: str
) -> None:
    """The scale is the bits of a float; relu is taken with one for each column too."""
    x = np.random.default_rng(2).integers(-4, 5, (32, 32)).astype(np.int8)
    args = {"y": np.zeros((32, 32), np.float16), "x": x,
            "q": np.full(32, np.float32(0.5).view(np.uint32), np.uint64)}  # fmt: skip
    program = ptosim.load(_PRODUCT.replace("STORE", store), target=target, filename="k.cpp")
    wanted = np.maximum(x.astype(np.float32) @ x.astype(np.float32) / 2, least)
    np.testing.assert_array_equal(program.run(args).outputs["y"], wanted)


_SINGLES = """AICORE void k(__gm__ float *y, __gm__ float *x) {
    using namespace pto;
    GlobalTensor<float, Shape<1, 1, 1, 16, 16>, Stride<256, 256, 256, 16, 1>> gx(x), gy(y);
    Tile<TileType::Mat, float, 16, 16, BLayout::ColMajor, 16, 16, SLayout::RowMajor> m;
    TileLeft<float, 16, 16> a; TileRight<float, 16, 16> b; TileAcc<float, 16, 16> c;
    TASSIGN(m, 0); TASSIGN(a, 0); TASSIGN(b, 0); TASSIGN(c, 0);
    TLOAD(m, gx);
    PtoSetWaitFlag<PIPE_MTE2, PIPE_MTE1>();
    TMOV(a, m); TMOV(b, m);
    PtoSetWaitFlag<PIPE_MTE1, PIPE_M>();
    MODE
    TMATMUL(c, a, b);
    a.ResetMadMode();
    PtoSetWaitFlag<PIPE_M, PIPE_FIX>();
    TSTORE(gy, c);
}
"""


@pytest.mark.parametrize(
    ("mode", "unit"), [("", 0), ("a.SetMadTF32Mode(RoundMode::CAST_ROUND);", 1)]
)
def test_products_of_singles_may_take_fewer_bits(mode: str, unit: int) -> None:
    """1 + 2**-11 is half a step of the mantissa of 10 bits that A5 keeps: away from zero it is
    1 + 2**-10."""
    x = np.eye(16, dtype=np.float32) * np.float32(1 + 2**-11)
    program = ptosim.load(_SINGLES.replace("MODE", mode), target="a5", filename="k.cpp")
    found = program.run({"y": np.zeros((16, 16), np.float32), "x": x}).outputs["y"]
    base = np.float32(1 + 2**-10) if unit else x[0, 0]
    np.testing.assert_array_equal(found, np.eye(16, dtype=np.float32) * (base * base))


def test_a_mode_that_an_instruction_does_not_have_is_told() -> None:
    text, _ = _kernel(_F, "TADDS<ReluPreMode::NormalRelu>(d, s, 1.0f);")
    with pytest.raises(ProgramError, match="has no such mode"):
        ptosim.load(text, target="a5", filename="k.cpp")


@pytest.mark.parametrize("type_", ["uint8_t", "void"])
def test_a_pointer_to_bytes_is_what_its_cast_says(type_: str) -> None:
    """Kernels of the library's tests take `uint8_t*` and cast it; further casts are allowed."""
    text = f"""AICORE void k(__gm__ {type_} *y, __gm__ {type_} *x, __gm__ uint8_t *w) {{
    auto p = reinterpret_cast<__gm__ float *>(y); auto q = (__gm__ float *)x;
    p[0] = q[1] + 1.0f;
    ((__gm__ int32_t *)(w + 4))[0] = 7;
    ((__gm__ int16_t *)(w + 4))[2] = 9;
}}"""
    args = {"y": np.zeros(1, np.float32), "x": np.arange(2, dtype=np.float32),
            "w": np.zeros(12, np.uint8)}  # fmt: skip
    found = ptosim.load(text, target="a5", filename="k.cpp").run(args).outputs
    assert found["y"][0] == 2
    assert found["w"].tolist() == [0] * 4 + [7, 0, 0, 0] + [9, 0, 0, 0]


@pytest.mark.parametrize("layout", ["ZZ", "ND", "DN"])
def test_scales_come_from_every_layout_of_the_library(layout: str) -> None:
    """Two groups of a line are next to each other; the pairs of a line follow it (A ND, B DN), or
    all lines of a pair do, or boxes of 16 lines."""
    lines, groups = 32, 4
    other = "NN" if layout == "ZZ" else layout
    text = f"""AICORE void k(__gm__ float *y, __gm__ float8_e4m3_t *x, __gm__ float8_e8m0_t *p,
                             __gm__ float8_e8m0_t *q) {{
    using namespace pto;
    using S = float8_e8m0_t; using E = float8_e4m3_t;
    GlobalTensor<E, Shape<1, 1, 1, 32, 128>, Stride<4096, 4096, 4096, 128, 1>> gx(x);
    GlobalTensor<E, Shape<1, 1, 1, 128, 32>, Stride<4096, 4096, 4096, 32, 1>> gw(x);
    GlobalTensor<float, Shape<1, 1, 1, 32, 32>, Stride<1024, 1024, 1024, 32, 1>> gy(y);
    constexpr auto LA = Layout::MX_A_{layout}, LB = Layout::MX_B_{other};
    GlobalTensor<S, TileShape2D<S, 32, 4, LA>, BaseShape2D<S, 32, 4, LA>, LA> gp(p);
    GlobalTensor<S, TileShape2D<S, 4, 32, LB>, BaseShape2D<S, 4, 32, LB>, LB> gq(q);
    Tile<TileType::Mat, E, 32, 128, BLayout::ColMajor, 32, 128, SLayout::RowMajor> ma;
    Tile<TileType::Mat, E, 128, 32, BLayout::ColMajor, 128, 32, SLayout::RowMajor> mb;
    Tile<TileType::Mat, S, 32, 4, BLayout::RowMajor, 32, 4, SLayout::RowMajor, 32> mp;
    Tile<TileType::Mat, S, 4, 32, BLayout::ColMajor, 4, 32, SLayout::ColMajor, 32> mq;
    TASSIGN(ma, 0); TASSIGN(mb, 0x4000); TASSIGN(mp, 0x8000); TASSIGN(mq, 0xA000);
    TileLeft<E, 32, 128> a; TileRight<E, 128, 32> b; TileAcc<float, 32, 32> c;
    TileLeftScale<S, 32, 4> sa; TileRightScale<S, 4, 32> sb;
    TASSIGN(a, 0); TASSIGN(b, 0); TASSIGN(c, 0);
    TGET_SCALE_ADDR(sa, a); TGET_SCALE_ADDR(sb, b);
    TLOAD(ma, gx); TLOAD(mb, gw); TLOAD(mp, gp); TLOAD(mq, gq);
    PtoSetWaitFlag<PIPE_MTE2, PIPE_MTE1>();
    TMOV(a, ma); TMOV(b, mb); TMOV(sa, mp); TMOV(sb, mq);
    PtoSetWaitFlag<PIPE_MTE1, PIPE_M>();
    TMATMUL_MX(c, a, sa, b, sb);
    PtoSetWaitFlag<PIPE_M, PIPE_FIX>();
    TSTORE(gy, c);
}}"""
    draw = np.random.default_rng(4)
    left = draw.integers(125, 130, (lines, groups)).astype(np.uint8)
    right = draw.integers(125, 130, (lines, groups)).astype(np.uint8)
    given = {
        "ZZ": lambda s: s.reshape(2, 16, 2, 2).transpose(0, 2, 1, 3),
        "ND": lambda s: s.reshape(lines, 2, 2),
        "DN": lambda s: s.reshape(lines, 2, 2).transpose(1, 0, 2),
    }
    of_right = {"ZZ": "ZZ", "ND": "DN", "DN": "ND"}[layout]
    x = draw.integers(-3, 4, 4096).astype(ml_dtypes.float8_e4m3fn)
    scale = ml_dtypes.float8_e8m0fnu
    result = ptosim.load(text, target="a5", filename="k.cpp").run(
        {"y": np.zeros((32, 32), np.float32), "x": x,
         "p": given[layout](left).ravel().view(scale),
         "q": given[of_right](right).ravel().view(scale)}
    )  # fmt: skip
    a, b = (2.0 ** (np.repeat(s, 32, 1).astype(int) - 127) for s in (left, right))
    wanted = (x.reshape(32, 128).astype(float) * a) @ (x.reshape(128, 32).astype(float) * b.T)
    np.testing.assert_array_equal(result.outputs["y"], wanted)


def test_bytes_are_taken_for_the_elements_of_a_cast() -> None:
    """Wrappers take `uint8_t *`: what is given as bytes comes back as bytes; what nothing reaches
    may be anything."""
    text = """AICORE void k(__gm__ uint8_t *y, __gm__ uint8_t *x, __gm__ uint8_t *unused) {
    ((__gm__ float *)y)[1] = ((__gm__ float *)x)[0] + 1.0f;
}"""
    program = ptosim.load(text, target="a5", filename="k.cpp")
    x = np.arange(2, dtype=np.float32)
    given = {"y": np.zeros(8, np.uint8), "x": x, "unused": np.zeros(3, np.float32)}
    found = program.run(given).outputs["y"]
    assert found.dtype == np.uint8
    assert found.view(np.float32).tolist() == [0, 1]
    with pytest.raises(UsageError, match="array of f32"):
        program.run({**given, "x": np.zeros(2, np.int32)})


def test_auto_has_no_addresses_and_no_flags() -> None:
    """With `__PTO_AUTO__` the assembler places tiles and makes flags."""
    text, given = _kernel(_TWO, "TADD(d, a, b);")
    args = {n: np.ones(shape, t) for n, (_, shape, t) in given.items()}
    program = ptosim.load(text, target="a5", filename="k.cpp", defines={"__PTO_AUTO__": "1"})
    result = program.run(args)
    assert result.outputs["pd"].tolist() == (args["pa"] * 2).tolist()
    assert not [d for d in result.findings if d.is_error]


def test_what_the_headers_forbid_stays_an_error() -> None:
    text, _ = _kernel(_F, "TADD(d, s);")
    with pytest.raises(ProgramError, match="does not take these arguments"):
        ptosim.load(text, target="a5", filename="k.cpp")


@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize(
    ("tiles", "call", "words"),
    [
        (">d:float8_e4m3_t 16 128|<a:float 16 64|<b:float 16 64", "TCONCAT_IMPL(d, a, b);",
         "the same element type"),
        (">d:float8_e4m3_t 16 64|<s:float8_e4m3_t 16 64", "TABS(d, s);",
         "element type to be f16 or f32"),
        (">d:int32_t 16 64|<a:float 16 64|<b:float 16 64", "TSUBRELU(d, a, b);",
         "the same element type"),
        (f">d:int8_t 16 64|<s:int8_t 16 64|<q:float 16 1 {_COLUMN}",
         "TQUANT<QuantType::INT8_SYM>(d, s, q);", "src element type to be f32"),
    ],
)  # fmt: skip
def test_types_that_no_header_has_code_for_are_errors(
    tiles: str, call: str, words: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rule that the headers do not have hides none that they have."""
    monkeypatch.setitem(_TYPES, "float8_e4m3_t", ml_dtypes.float8_e4m3fn)
    text, _ = _kernel(tiles, call)
    with pytest.raises(ProgramError, match=words):
        ptosim.load(text, target=target, filename="k.cpp")


def test_bytes_of_low_precision_are_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    """The assembler's words are a warning where nothing is computed."""
    monkeypatch.setitem(_TYPES, "float8_e4m3_t", ml_dtypes.float8_e4m3fn)
    tiles = ">d:float8_e4m3_t 16 128|<a:float8_e4m3_t 16 64|<b:float8_e4m3_t 16 64"
    text, args = _kernel(tiles, "TCONCAT_IMPL(d, a, b);")
    codes = np.arange(16 * 64, dtype=np.uint8).reshape(16, 64)
    given = {name: np.zeros(shape, type_) for name, (_, shape, type_) in args.items()}
    given["pa"] = codes.view(ml_dtypes.float8_e4m3fn)
    found = ptosim.load(text, target="a5", filename="k.cpp").run(given)
    np.testing.assert_array_equal(found.outputs["pd"].view(np.uint8)[:, :64], codes)


@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize(
    ("tiles", "call", "want"),
    [
        (
            ">d:uint16_t 16 64|<a:int16_t 16 64|<b:int16_t 16 64",
            "TSHR(d, a, b);",
            "a.view(np.uint16) >> b",
        ),
        (">d:uint16_t 16 64|<s:int16_t 16 64", "TNOT(d, s);", "~s"),
        (">d:uint32_t 1 64|<s:int32_t 4 64|t:int32_t 4 64", "TCOLPROD(d, s);", "s.prod(0)[None]"),
    ],
)
def test_elements_of_another_sign_are_taken_for_those_of_dst(
    tiles: str, call: str, want: str, target: str
) -> None:
    """The library works in the type of dst; the assembler's rules do not tell such types apart."""
    text, args = _kernel(tiles, call)
    given = {
        name: (np.arange(np.prod(shape), dtype=type_).reshape(shape) % 7 - 3).astype(type_)
        for name, (_, shape, type_) in args.items()
    }
    given = {k: np.abs(v) if k == "pb" else v for k, v in given.items()}
    found = ptosim.load(text, target=target, filename="k.cpp").run(dict(given))
    names = {k[1:]: v for k, v in given.items()}
    expected = np.asarray(eval(want, {"np": np, **names})).astype(names["d"].dtype)
    np.testing.assert_array_equal(found.outputs["pd"], expected)


_NAMES = """TABS TNOT TNEG TRELU TROWEXPAND TCOLEXPAND TCOLMAX TCOLMIN TCOLPROD TCOLSUM TFILLPAD_INPLACE
TFILLPAD_EXPAND TPAIRREDUCESUM TGET_SCALE_ADDR TEXP TLOG TSQRT TRSQRT TRECIP TADD TSUB TMUL TMIN TMAX TAND
TOR TSHL TSHR TPARTADD TPARTMUL TPARTMAX TPARTMIN TFUSEDMULADD TFUSEDMULADDRELU TMULADDDST TSUBRELU
TADDRELUCONV TSUBRELUCONV TCOLEXPANDADD TCOLEXPANDSUB TCOLEXPANDMUL TCOLEXPANDMAX TCOLEXPANDMIN
TCOLEXPANDEXPDIF TDIV TFMOD TCOLEXPANDDIV TROWEXPANDADD TROWEXPANDSUB TROWEXPANDMUL TROWEXPANDMAX
TROWEXPANDMIN TROWEXPANDEXPDIF TROWEXPANDDIV TXOR TPRELU TREM TPOW TROWSUM TROWPROD TROWMAX TROWMIN TTRANS
TROWARGMAX TROWARGMIN TCOLARGMAX TCOLARGMIN TADDS TSUBS TMULS TMINS TMAXS TANDS TORS TSHLS TSHRS TLRELU
TAXPY TDIVS TFMODS TREMS TPOWS TXORS TADDC TSUBC TADDSC TSUBSC TEXPANDS TSEL TSELS TCMP TCMPS TCVT TCI TTRI
TRANDOM TSORT32 TMRGSORT TGATHER TGATHERB TSCATTER TLOAD TPREFETCH MGATHER MSCATTER TSTORE TSTORE_FP TMOV
TMOV_FP TEXTRACT TEXTRACT_FP TINSERT TINSERT_FP TFILLPAD TMATMUL TMATMUL_ACC TMATMUL_BIAS TGEMV TGEMV_ACC
TGEMV_BIAS TMATMUL_MX TGEMV_MX TQUANT TDEQUANT TADDDEQRELU TCONCAT TPARTARGMAX TPARTARGMIN THISTOGRAM
TINTERLEAVE TDEINTERLEAVE TIMG2COL SETFMATRIX SET_IMG2COL_RPT SET_IMG2COL_PADDING SET_QUANT_SCALAR
SET_QUANT_VECTOR TPRINT TPUSH TPOP TFREE TALLOC TPUT TGET TNOTIFY TWAIT TTEST TBROADCAST TREDUCE SYNCALL
TSUBVIEW TRESHAPE TASSIGN TSYNC"""
"""What the headers have."""


def test_every_name_of_the_headers_is_called_in_a_test() -> None:
    here = Path(__file__).parent
    data = here.parents[1] / "data" / "cpp"
    texts = [p.read_text() for p in (*here.glob("test_*.py"), *data.rglob("*.cpp"),
                                     *data.glob("*.toml"))]  # fmt: skip
    called = set(re.findall(r"\b([A-Z][A-Z0-9_]+?)(?:_IMPL)?\s*(?:<[^;]*?>)?\(", "\n".join(texts)))
    called |= {call.split("(")[0].split("<")[0] for _, call, _ in _CASES}
    assert sorted(set(_NAMES.split()) - called) == []
