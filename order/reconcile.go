package order

import "time"

// ReconcileAsk is what a reconciliation reads. Empty fields mean all: every account, from where the last one ended. A window that is
// given is read by hand: it moves no stored cursor.
type ReconcileAsk struct {
	Gateway string    `json:"gateway,omitempty"`
	Account string    `json:"account,omitempty"`
	From    time.Time `json:"from,omitzero"`
	To      time.Time `json:"to,omitzero"`
}

// Reconciled is what reading one account's books led to. Looks and orphans are counted per page: a payment that stands on two pages
// may count twice.
type Reconciled struct {
	Account Account   `json:"account"`
	Reached time.Time `json:"reached,omitzero"` // what is before it was met
	Done    bool      `json:"done"`             // read to the end; false = the next round goes on
	Pages   int       `json:"pages"`
	Items   int       `json:"items"`
	Agreed  int       `json:"agreed"`  // payments that say what we know
	Looks   int       `json:"looks"`   // attempts to be looked at
	Orphans int       `json:"orphans"` // payments that nothing explains, newly held
	Waiting int       `json:"waiting"` // payments too young to say anything about, or that may be an unresolved attempt's
	Linked  int       `json:"linked"`  // orphans that an attempt explains after all
	Code    string    `json:"code,omitempty"`
}

// Add counts what a further part led to.
func (r *Reconciled) Add(o Reconciled) {
	r.Pages, r.Items, r.Agreed = r.Pages+o.Pages, r.Items+o.Items, r.Agreed+o.Agreed
	r.Looks, r.Orphans, r.Waiting, r.Linked = r.Looks+o.Looks, r.Orphans+o.Orphans, r.Waiting+o.Waiting, r.Linked+o.Linked
	if !o.Reached.IsZero() {
		r.Reached = o.Reached
	}
	r.Done, r.Code = o.Done, o.Code
}
