package fault_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"
	"time"

	"orderflow/internal/fault"
)

// codesInSource reads the Code constants from the source, since Go cannot list them and a constant without a row would
// silently behave as internal_error.
func codesInSource(t *testing.T) map[fault.Code]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "table.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := map[fault.Code]string{}
	for _, decl := range file.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok || gen.Tok != token.CONST {
			continue
		}
		for _, spec := range gen.Specs {
			value, ok := spec.(*ast.ValueSpec)
			if !ok {
				continue
			}
			if kind, ok := value.Type.(*ast.Ident); !ok || kind.Name != "Code" {
				continue
			}
			for i, name := range value.Names {
				text, err := strconv.Unquote(value.Values[i].(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				if other, twice := found[fault.Code(text)]; twice {
					t.Errorf("%s and %s are the same code %q", other, name.Name, text)
				}
				found[fault.Code(text)] = name.Name
			}
		}
	}
	if len(found) < 30 {
		t.Fatalf("only %d Code constants found: the test no longer sees them", len(found))
	}
	return found
}

func TestEveryCodeHasExactlyOneRow(t *testing.T) {
	t.Parallel()
	codes, rows := codesInSource(t), map[fault.Code]int{}
	for _, p := range fault.Table() {
		rows[p.Code]++
	}
	for code, name := range codes {
		if rows[code] != 1 {
			t.Errorf("%s (%s) has %d rows", name, code, rows[code])
		}
	}
	for code := range rows {
		if _, ok := codes[code]; !ok {
			t.Errorf("the row %q belongs to no constant", code)
		}
	}
}

func TestEveryRowKeepsTheRules(t *testing.T) {
	t.Parallel()
	known := map[fault.Class]bool{
		fault.Invalid: true, fault.Declined: true, fault.Misconfigured: true, fault.Transient: true,
		fault.InProgress: true, fault.Conflict: true, fault.Unknown: true, fault.Internal: true,
	}
	for _, p := range fault.Table() {
		t.Run(string(p.Code), func(t *testing.T) {
			t.Parallel()
			if !known[p.Class] {
				t.Errorf("class %q does not exist", p.Class)
			}
			if len(p.Meaning) < 10 {
				t.Error("no meaning for a person")
			}
			for _, broken := range brokenRules(p) {
				t.Error(broken)
			}
		})
	}
}

// brokenRules is apart from the test so that the test can show that each rule is able to fail.
func brokenRules(p fault.Policy) []string {
	var out []string
	rule := func(broken bool, format string, args ...any) {
		if broken {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	bounds := p.First > 0 && p.Max >= p.First && p.Tries > 1 && p.MaxTotal >= p.Max
	rule(p.Retry && !bounds, "is retried without delays and an end: first=%s max=%s tries=%d total=%s", p.First, p.Max, p.Tries, p.MaxTotal)
	rule(!p.Retry && (p.First != 0 || p.Max != 0 || p.Tries != 0 || p.MaxTotal != 0), "is never retried and has retry bounds")
	final := p.Class == fault.Declined || p.Class == fault.Invalid || p.Class == fault.Misconfigured || p.Class == fault.Internal
	rule(p.Retry && final, "class %s is retried: the same request would get the same answer", p.Class)
	doubtful := p.Class == fault.Unknown || p.Class == fault.Conflict || p.Class == fault.InProgress
	rule(p.Retry && doubtful && !p.Look, "class %s is retried without looking first: it may have happened", p.Class)
	rule(p.Class == fault.Unknown && (!p.Retry || !p.Review), "an unknown outcome must be looked up, then shown to a person")
	rule((p.Class == fault.Internal || p.Class == fault.Misconfigured) && !p.Review, "class %s ends without a person", p.Class)
	return out
}

func TestEveryRuleCanFail(t *testing.T) {
	t.Parallel()
	good := fault.PolicyOf(fault.PaymentUnknown)
	for name, spoil := range map[string]func(*fault.Policy){
		"NoTries":           func(p *fault.Policy) { p.Tries = 0 },
		"NoFirst":           func(p *fault.Policy) { p.First = 0 },
		"MaxBelowFirst":     func(p *fault.Policy) { p.Max = p.First - 1 },
		"NoEnd":             func(p *fault.Policy) { p.MaxTotal = 0 },
		"BoundsUnused":      func(p *fault.Policy) { p.Retry = false },
		"DeclinedIsRetried": func(p *fault.Policy) { p.Class = fault.Declined },
		"InvalidIsRetried":  func(p *fault.Policy) { p.Class = fault.Invalid },
		"InternalIsRetried": func(p *fault.Policy) { p.Class = fault.Internal },
		"SendsBlindly":      func(p *fault.Policy) { p.Look = false },
		"NobodySees":        func(p *fault.Policy) { p.Review = false },
	} {
		p := good
		if spoil(&p); len(brokenRules(p)) == 0 {
			t.Errorf("%s passes", name)
		}
	}
	if broken := brokenRules(good); len(broken) > 0 {
		t.Errorf("the good row fails: %v", broken)
	}
}

func TestACodeWithoutARowStops(t *testing.T) {
	t.Parallel()
	p := fault.PolicyOf("no_such_code")
	if p.Code != "no_such_code" || p.Class != fault.Internal || p.Retry || !p.Review {
		t.Errorf("%+v", p)
	}
}

func TestTheTableCannotBeChangedFromOutside(t *testing.T) {
	t.Parallel()
	rows := fault.Table()
	rows[0].Retry = !rows[0].Retry
	if fault.Table()[0].Retry == rows[0].Retry {
		t.Error("a caller changed the table")
	}
}

func TestDelayStaysInBounds(t *testing.T) {
	t.Parallel()
	for _, p := range fault.Table() {
		before := time.Duration(0)
		for tries := 0; tries <= 70; tries++ {
			want := p.First
			for i := 1; i < tries && want < p.Max; i++ {
				want *= 2
			}
			want = min(want, p.Max)
			if want < before {
				t.Fatalf("%s: the delay shrinks after %d tries", p.Code, tries)
			}
			before = want
			for range 20 {
				got := p.Delay(tries, 0)
				if low, high := max(want, 1), want+want/4+time.Millisecond; got < low || got > high {
					t.Fatalf("%s after %d tries: %s, want %s to %s", p.Code, tries, got, low, high)
				}
			}
		}
	}
}

func TestDelayHasJitter(t *testing.T) {
	t.Parallel()
	seen := map[time.Duration]bool{}
	for range 100 {
		seen[fault.PolicyOf(fault.PaymentUnknown).Delay(3, 0)] = true
	}
	if len(seen) < 50 {
		t.Errorf("100 orders came back at %d moments", len(seen))
	}
}

func TestDelayHonorsWhatWasAsked(t *testing.T) {
	t.Parallel()
	p := fault.PolicyOf(fault.GatewayRateLimited)
	for _, asked := range []time.Duration{2 * time.Second, p.Max, 3 * p.Max, fault.MaxRetryAfter} {
		for range 50 {
			if got := p.Delay(1, asked); got < asked || got > asked+asked/4+1 {
				t.Fatalf("asked for %s, waits %s", asked, got)
			}
		}
	}
	if got := p.Delay(5, time.Millisecond); got < 16*time.Second {
		t.Errorf("a short wish must not shorten the delay: %s", got)
	}
	if got := p.Delay(1, -time.Hour); got < p.First {
		t.Errorf("a negative wish must not shorten the delay: %s", got)
	}
}

func TestNoDelayIsZero(t *testing.T) {
	t.Parallel()
	if got := fault.PolicyOf(fault.PaymentDeclined).Delay(1, 0); got <= 0 {
		t.Errorf("Temporal reads %s as not set", got)
	}
}
