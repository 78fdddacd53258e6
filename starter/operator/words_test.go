package operator

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orderflow/order"
	"orderflow/starter/view"
)

// Goal: no text is missing in either language. Method: the keys that templates and code name, and every word and sentence of the
// domain, against the catalog. Not covered: whether a translation is a good one.

var verb = regexp.MustCompile(`%(?:\[\d+\])?[sd]`)

var refusedAs = regexp.MustCompile(`rejected\("([a-z_]+)"\)`)

// Whatever the rule says to a decision, the page has words for it.
func TestEveryRefusalOfADecisionHasWords(t *testing.T) {
	t.Parallel()
	found := map[string]bool{}
	for file, from := range map[string]string{"decision": "package order", "correct": "func (f Facts) recordExternal", "refund": "func (f Facts) confirmRefunded", "cancel": "func (f Facts) closeUnit"} {
		source, err := os.ReadFile("../../order/" + file + ".go")
		require.NoError(t, err)
		_, rest, there := strings.Cut(string(source), from)
		require.True(t, there, "the rule of %s.go has moved: adapt the test", file)
		if file != "decision" {
			rest, _, _ = strings.Cut(rest, "\n}\n")
		}
		for _, m := range refusedAs.FindAllStringSubmatch(rest, -1) {
			found[m[1]] = true
			assert.Contains(t, catalog, "why."+m[1])
		}
	}
	assert.Greater(t, len(found), 20)
	for _, why := range []string{"more_than_left", "nothing_captured", "refund_disputed", "money_taken_back", "out_of_stock", "order_not_expired", "too_early"} {
		assert.Contains(t, catalog, "why."+why)
	}
}

// A form asks for exactly the evidence that the rule needs (order.DecisionKind.Needs, which its own test compares with the rule), always
// for the reason, and for nothing twice.
func TestFormsAskForWhatTheRuleNeeds(t *testing.T) {
	t.Parallel()
	for _, g := range order.GuidanceTable() {
		for _, d := range g.Allowed {
			required := map[string]bool{}
			fields := asks(d, g.Reason)
			for _, f := range fields {
				assert.False(t, required[f.Name], "%s asks for %s twice", d, f.Name)
				required[f.Name] = f.Required
				assert.Positive(t, f.Max)
			}
			assert.Len(t, required, len(fields))
			reference, proof := d.Needs(g.Reason)
			want := map[string]bool{"reason": true}
			if reference {
				want["reference"] = true
			}
			if proof {
				want["proof"] = true
			}
			switch d {
			case order.DecideLinkPayment:
				want["attempt"] = true
			case order.DecideRefund:
				want["amount"] = false // empty is all that is left
			}
			assert.Equal(t, want, required, "%s about %s", d, g.Reason)
		}
	}
}

func TestBothLanguagesHaveEveryText(t *testing.T) {
	t.Parallel()
	for key, p := range catalog {
		assert.NotEmpty(t, p.en, key)
		assert.NotEmpty(t, p.ja, key)
		assert.Len(t, verb.FindAllString(p.ja, -1), len(verb.FindAllString(p.en, -1)), "%s takes as many values in both", key)
	}
	total := len(pageWords) + len(domainWords) + len(pointWords) + len(refusalWords)
	require.Len(t, catalog, total, "no key stands in two parts")
}

func TestEveryKeyInPagesIsInTheCatalog(t *testing.T) {
	t.Parallel()
	key := regexp.MustCompile(`\.T "([a-z._]+)"`)
	n := 0
	require.NoError(t, fs.WalkDir(pageFiles, "pages", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := fs.ReadFile(pageFiles, path)
		for _, m := range key.FindAllStringSubmatch(string(b), -1) {
			n++
			assert.Contains(t, catalog, m[1], path)
		}
		return err
	}))
	require.Greater(t, n, 100)
}

func TestEveryWordOfTheDomainHasAText(t *testing.T) {
	t.Parallel()
	has := func(kind, word string) {
		t.Helper()
		assert.Contains(t, catalog, kind+"."+word)
	}
	for _, g := range order.GuidanceTable() {
		has("reason", string(g.Reason))
		assert.Contains(t, sentences, g.Means)
		for _, f := range g.Forbidden {
			assert.Contains(t, sentences, f)
			assert.NotEmpty(t, reasons[f].en, f)
			assert.NotEmpty(t, reasons[f].ja, f)
		}
	}
	for _, d := range order.DecisionKinds {
		has("decision", string(d))
		has("does", string(d))
		for _, g := range order.GuidanceTable() {
			for _, f := range asks(d, g.Reason) {
				assert.Contains(t, catalog, f.Label)
			}
		}
	}
	for _, r := range order.Roles {
		has("role", string(r))
	}
	for _, c := range order.Channels {
		has("channel", string(c))
	}
	for _, w := range view.PointWords {
		has("point", w)
	}
	for _, age := range []string{"any", "hour", "day", "week"} {
		has("queue.age", age)
	}
}

// A sentence with values in it says all of them, in both languages.
func TestPointsAreWholeSentences(t *testing.T) {
	t.Parallel()
	for _, lang := range []string{english, japanese} {
		for key, p := range pointWords {
			args := []any{}
			for range verb.FindAllString(p.en, -1) {
				args = append(args, "x")
			}
			if strings.Contains(p.en, "%d") {
				args = nil
				for range verb.FindAllString(p.en, -1) {
					args = append(args, 7)
				}
			}
			assert.NotContains(t, say(lang, key, args...), "%!", key)
		}
	}
}
