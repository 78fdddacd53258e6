package order

// Goal: the graph a person reads and the graph this test holds are one; the walk compares the second with the rule.

import (
	"bufio"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func edges(s SubjectKind, from Status, to ...Status) map[Transition]bool {
	m := map[Transition]bool{}
	for _, t := range to {
		m[Transition{s, from, t}] = true
	}
	return m
}

func union(ms ...map[Transition]bool) map[Transition]bool {
	out := map[Transition]bool{}
	for _, m := range ms {
		for e := range m {
			out[e] = true
		}
	}
	return out
}

// published is the graph as docs/states.md draws it, without the first states that the store writes with the row.
var published = union(
	edges(SubjectOrder, OrderOpen, OrderPaid, OrderExpired, OrderCanceled),
	edges(SubjectOrder, OrderPaid, OrderCompleted, OrderCanceled),
	edges(SubjectOrder, OrderExpired, OrderPaid),

	edges(SubjectAttempt, "", AttemptCreated),
	edges(SubjectAttempt, AttemptCreated, AttemptSent, AttemptUnknown, AttemptPending, AttemptSucceeded, AttemptDeclined, AttemptClosed),
	edges(SubjectAttempt, AttemptSent, AttemptUnknown, AttemptPending, AttemptSucceeded, AttemptDeclined, AttemptClosed),
	edges(SubjectAttempt, AttemptUnknown, AttemptPending, AttemptSucceeded, AttemptDeclined, AttemptClosed),
	edges(SubjectAttempt, AttemptPending, AttemptUnknown, AttemptSucceeded, AttemptDeclined, AttemptClosed),
	edges(SubjectAttempt, AttemptDeclined, AttemptPending, AttemptSucceeded, AttemptClosed),
	edges(SubjectAttempt, AttemptClosed, AttemptSucceeded),

	edges(SubjectUnit, UnitPlanned, UnitIssuing, UnitIssued, UnitUnknown, UnitRefused, UnitCanceled),
	edges(SubjectUnit, UnitIssuing, UnitIssued, UnitRefused, UnitUnknown, UnitCanceled),
	edges(SubjectUnit, UnitUnknown, UnitIssued, UnitRefused, UnitPlanned, UnitCanceled),
	edges(SubjectUnit, UnitRefused, UnitIssued, UnitPlanned, UnitCanceled),

	edges(SubjectRefund, "", RefundRequested),
	edges(SubjectRefund, RefundRequested, RefundSent, RefundUnknown, RefundPending, RefundSucceeded, RefundFailed),
	edges(SubjectRefund, RefundSent, RefundUnknown, RefundPending, RefundSucceeded, RefundFailed),
	edges(SubjectRefund, RefundUnknown, RefundPending, RefundSucceeded, RefundFailed),
	edges(SubjectRefund, RefundPending, RefundSucceeded, RefundFailed),
	edges(SubjectRefund, RefundSucceeded, RefundFailed),
	edges(SubjectRefund, RefundFailed, RefundPending, RefundSucceeded),

	edges(SubjectCancel, "", CancelWaiting, CancelStopping, CancelDone),
	edges(SubjectCancel, CancelWaiting, CancelStopping, CancelDone),
	edges(SubjectCancel, CancelStopping, CancelDone),
)

// born are the first states: written with the row itself.
var born = union(edges(SubjectOrder, "", OrderOpen), edges(SubjectUnit, "", UnitPlanned))

var edgeLine = regexp.MustCompile(`^\s*(\S+) --> (\S+?)(\s*:.*)?$`)

// drawn reads the Mermaid diagrams: one per heading.
func drawn(t *testing.T) (map[Transition]bool, map[SubjectKind]map[Status]bool) {
	file, err := os.Open("../docs/states.md")
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	es, states := map[Transition]bool{}, map[SubjectKind]map[Status]bool{}
	headings := map[string]SubjectKind{"## Order": SubjectOrder, "## Attempt": SubjectAttempt, "## Unit": SubjectUnit, "## Refund": SubjectRefund, "## Cancel": SubjectCancel}
	var subject SubjectKind
	inside := false
	name := func(s string) Status {
		if s == "[*]" {
			return ""
		}
		return Status(s)
	}
	for sc := bufio.NewScanner(file); sc.Scan(); {
		line := sc.Text()
		if s, ok := headings[line]; ok {
			subject, states[s] = s, map[Status]bool{}
		}
		if strings.HasPrefix(line, "```") {
			inside = line == "```mermaid"
			continue
		}
		m := edgeLine.FindStringSubmatch(line)
		if !inside || m == nil {
			require.False(t, inside && strings.Contains(line, "-->"), "unreadable edge: %s", line)
			continue
		}
		from, to := name(m[1]), name(m[2])
		require.NotEmpty(t, to, "the diagrams draw no end state: closed and expired can still be left or reviewed")
		require.False(t, es[Transition{subject, from, to}], "drawn twice: %s", line)
		require.Contains(t, m[3], ": ", "an edge says what causes it: %s", line)
		es[Transition{subject, from, to}] = true
		states[subject][from], states[subject][to] = true, true
	}
	return es, states
}

func TestDiagramIsThePublishedGraph(t *testing.T) {
	t.Parallel()
	got, states := drawn(t)
	require.Equal(t, union(published, born), got)
	text, err := os.ReadFile("../docs/states.md")
	require.NoError(t, err)
	for subject, all := range statusesOf {
		for _, s := range all {
			if !states[subject][s] {
				require.Contains(t, string(text), "`"+string(s)+"`", "%s %s is neither drawn nor explained", subject, s)
			}
		}
	}
}
