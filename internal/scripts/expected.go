package scripts

import (
	"fmt"
	"slices"
	"strings"
)

// mayCaptureAgain: an account that a deposit was taken back from can take another.
func (p *Play) mayCaptureAgain() bool { return p.cameAgain() }

// cameAgain: a deposit was taken back, and came again.
func (p *Play) cameAgain() bool {
	return p.deposited != "" && !p.takenBack && slices.ContainsFunc(p.Steps, isCorrection)
}

func isCorrection(e *Event) bool { return e.Name == "correction" }

// end is where a script may come to.
type end struct {
	states []string // of the order
	told   string   // what a person must have been told of; empty = nothing
	may    bool     // a person may have been told, depending on what was heard first
}

// wrongState compares the order's own state and its reviews with what the books of the outside and the script say has happened.
func (p *Play) wrongState(o *ours, all money) []string {
	want := p.expected(o, all)
	var wrong []string
	if !slices.Contains(want.states, o.status) {
		wrong = append(wrong, fmt.Sprintf("the order should be %s", strings.Join(want.states, " or ")))
	}
	switch {
	case want.told == "" && !want.may && len(o.reviews) > 0:
		wrong = append(wrong, "a person is asked, and nothing is wrong")
	case want.told != "" && len(o.reviews) == 0:
		wrong = append(wrong, "no person is told of "+want.told)
	}
	provided, units := o.units["issued"], 0
	for _, n := range o.units {
		units += n
	}
	switch {
	case o.status == "completed" && (units == 0 || provided != units):
		wrong = append(wrong, "completed, and not everything was provided")
	case o.status == "open" && provided > 0, o.status == "expired" && provided > 0:
		wrong = append(wrong, "goods without a paid order")
	}
	return wrong
}

func (p *Play) expected(o *ours, all money) (e end) {
	defer func() { e.may = e.may || o.asked > 0 }() // of several refunds that look alike nobody but a person can tell
	paid := p.paidIn()
	ended := p.expired >= 0 && (paid < 0 || p.expired < paid)
	switch {
	case p.canceled: // whatever money there was is back, or a person decides
		if e.states, e.may = []string{"canceled"}, all.captured > 0; all.here() > 0 {
			e.told = "money of a canceled order"
		}
		return e
	case paid < 0 && ended:
		return end{states: []string{"expired"}}
	case paid < 0:
		return end{states: []string{"open"}}
	case ended: // money that came after the end: kept, or a person decides
		e.states = []string{"expired", "completed"}
	default:
		e.states = []string{"completed"}
	}
	if all.here() == 0 { // nothing of what is not provided by then is given away
		e.states = append(e.states, "canceled")
	}
	if ended && o.status == "expired" {
		e.told = "money that came after the end"
	}
	if all.captured > Total && !p.cameAgain() {
		e.told = "a second payment"
	}
	trouble := ""
	switch {
	case p.takenBack:
		trouble = "a deposit that was taken back"
	case p.disputed:
		trouble = "a dispute"
	case all.withdrawn > 0 && !p.cameAgain():
		trouble = "a dispute that was lost"
	case p.elsewhere > 0:
		trouble = "money that somebody else gave back"
	}
	if trouble == "" {
		return e
	}
	// What is provided by then depends on what was heard first. Money that came and went unseen is no one's trouble.
	e.states = append(e.states, "paid", "open", "canceled")
	if e.may = true; len(o.payments) > 0 {
		e.told = trouble
	}
	return e
}

// paidIn is the step in which the order's money was in the provider's books; -1 = none.
func (p *Play) paidIn() int {
	return slices.IndexFunc(p.history, func(m moment) bool { return m.captured >= Total })
}
