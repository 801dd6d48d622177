"""Which `<` compares and which begins arguments of a template, before the grammar is asked."""

from __future__ import annotations

import pytest

from ptosim.language.cpp.comparisons import Comparisons

_TEMPLATES = (
    "template <int N> int t(int n) { return N; } int k(int t2) { return t<3>(t2) > (2); }",
    "template <int N, bool B = N < 3> struct A {}; int f() { A<1> a; return N > (1) && A<2>(a); }",
    "template <class T> template <int I> void S<T>::m(int x) {} void k() { f(m < 3 > (1)); m = 1; }",
    "template <template <int> class Op> int f(int x) { return Op<3>(x) > (1); }",
    "template <int N> constexpr bool is_low = N < 9; bool b = is_low < 3 > (1);",
    "using namespace std; auto x = get<0>(t) > (1); int get = 1; get_t<1>(2);",
    "pipe.Init<0>(1); int Init = 1; p->Init<2>(3); p.template Init<4>(5);",
    "Tile<TileType::Vec, float, 8, 64> a; Tile = 1; TLOAD<1>(a); TLOAD = 2;",
    "std::size<3>(1); int size = 2;",
    "int n = static_cast<int>(m) > (2);",
    "int N = 1; std::conditional_t<N<6, A, B> a;",  # where `>` would end the arguments
    "f<<<3, nullptr>>>(1); int f = 1; f <= 2 > (1); f << 1 > (2);",
)


@pytest.mark.parametrize("text", _TEMPLATES)
def test_a_name_that_may_be_a_template_is_left_alone(text: str) -> None:
    assert Comparisons(text).told(text) == text


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("int n; if (n < m && m > (1));", "int n; if (n <=m && m > (1));"),
        ("int n; if (n <m && m > (1));", "int n; if (n<=m && m > (1));"),
        ("int n; if (n<m && m > (1));", "int n; if (n>m && m > (1));"),
        ("template <int N> int f(int n) { return n < N && N > (1); }",
         "template <int N> int f(int n) { return n <=N && N > (1); }"),
        ("int N = 1; conditional_t<N < 6, A, B> a;", "int N = 1; conditional_t<N <=6, A, B> a;"),
        ("int n; f(n\n< m, m > (1));", "int n; f(n\n<=m, m > (1));"),
        ("int n; x = n\n<\n3 > 2;", "int n; x = n\n>\n3 > 2;"),
        ("int i, j; x = i<n&&j<m&&k>-1;", "int i, j; x = i>n&&j>m&&k>-1;"),
    ],
)  # fmt: skip
def test_what_is_surely_compared_is_said_to_be(text: str, told: str) -> None:
    """By an operator that binds alike: `<=` where a blank leaves room for it, otherwise `>`. No line
    ends elsewhere than before: a comment may be in front."""
    assert Comparisons(text).told(text) == told


def test_time_grows_with_the_text_alone() -> None:
    """Whatever it is: names without an end of a statement, heads in heads, parentheses in others."""
    for part in ("a<", "template<", "((", "a1 < b && c > (a); "):
        text = "a = 1; " + part * 20_000 + "x = 1; x < 3 > (1);"
        assert len(Comparisons(text).told(text)) == len(text)
