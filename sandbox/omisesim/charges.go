package omisesim

import (
	"crypto/rand"
	"net/http"
	"strings"
	"time"
)

// The statuses of a charge.
const (
	pending    = "pending"
	successful = "successful"
	failed     = "failed"
	expired    = "expired"
	reversed   = "reversed"
)

// charge is one try at the buyer's money.
type charge struct {
	id          string
	account     string
	status      string
	amount      int64
	currency    string // upper case
	capture     bool
	authorized  bool
	captured    int64
	refunds     []*refund
	refunded    int64
	dispute     *dispute
	failure     string
	description string
	returnURI   string
	metadata    map[string]any
	customer    string
	method      string // the token, source or customer that was charged
	behavior    behavior
	created     time.Time
	paidAt      time.Time
	expires     time.Time
	buyerSecret string
	authorize   string // the buyer's page
	entry       *ChargeEntry
}

// order is a validated request to charge.
type order struct {
	amount                                         int64
	currency                                       string
	card, source, customer, description, returnURI string
	capture                                        bool
	metadata                                       map[string]any
	expires                                        time.Time
}

// currencies with the least and the most of one charge, in their smallest units. Zero = no documented limit.
var currencies = map[string][2]int64{
	"JPY": {100, 6_000_000},
	"THB": {2_000, 15_000_000},
	"SGD": {100, 2_000_000},
	"MYR": {100, 10_000_000},
	"USD": {}, "EUR": {}, "GBP": {}, "AUD": {}, "CAD": {}, "CHF": {}, "CNY": {}, "DKK": {}, "HKD": {},
}

func (s *Sim) readOrder(r *request) (order, *apiError) {
	o := order{}
	var bad *apiError
	if o.amount, _, bad = r.params.integer("amount"); bad != nil {
		return o, bad
	}
	for name, into := range map[string]*string{
		"currency": &o.currency, "card": &o.card, "source": &o.source, "customer": &o.customer,
		"description": &o.description, "return_uri": &o.returnURI,
	} {
		if *into, bad = r.params.text(name); bad != nil {
			return o, bad
		}
	}
	if o.capture, bad = r.params.boolean("capture", true); bad != nil {
		return o, bad
	}
	if o.metadata, bad = r.params.object("metadata"); bad != nil {
		return o, bad
	}
	if o.expires, bad = r.params.instant("expires_at", r.now.Add(s.settings.PendingFor)); bad != nil {
		return o, bad
	}
	o.currency = strings.ToUpper(o.currency)
	limits, known := currencies[o.currency]
	switch {
	case o.amount <= 0:
		return o, refused(http.StatusBadRequest, "invalid_amount", "amount must be greater than 0")
	case !known:
		return o, badRequest("currency is not supported")
	case s.settings.Limits && limits[1] > 0 && (o.amount < limits[0] || o.amount > limits[1]):
		return o, refused(http.StatusBadRequest, "invalid_amount", "amount must be between %d and %d", limits[0], limits[1])
	case o.source != "" && o.card+o.customer != "":
		return o, badRequest("source must not come with card or customer")
	case o.source+o.card+o.customer == "":
		return o, refused(http.StatusBadRequest, "missing_card", "request contains no card parameters")
	}
	return o, nil
}

func createCharge(s *Sim, r *request, _ string) (any, *apiError) {
	o, bad := s.readOrder(r)
	if bad != nil {
		return nil, bad
	}
	method, b, bad := s.spend(r, o)
	if bad != nil {
		return nil, bad
	}
	if b.refusal != "" {
		return nil, refused(http.StatusBadRequest, b.refusal, "the sandbox refuses this token")
	}
	c := &charge{
		id: r.newID("chrg"), account: r.account.name, status: pending, amount: o.amount, currency: o.currency,
		capture: o.capture, description: o.description, returnURI: o.returnURI, metadata: o.metadata, customer: o.customer,
		method: method, behavior: b, created: r.now,
	}
	c.entry = s.book.charge(c, r.account.live)
	r.account.charges[c.id] = c
	r.account.ordered = append(r.account.ordered, c)
	s.emit(r, "charge.create", c)
	switch {
	case r.refuse != "":
		s.fail(r, c, r.refuse)
	case b.failure != "":
		s.fail(r, c, b.failure)
	case b.challenge:
		c.expires = o.expires
		s.openBuyerPage(r, c)
	default:
		s.pay(r, c)
	}
	return c.view(r.account.live), nil
}

// spend takes the token or source, which works once. A customer's card works any number of times: nothing at Omise keeps
// two equal requests from being two charges.
func (s *Sim) spend(r *request, o order) (string, behavior, *apiError) {
	a := r.account
	switch {
	case o.source != "":
		src, made := a.sources[o.source]
		b, known := magic("src_", o.source, a.live)
		switch {
		case made && (src.amount != o.amount || src.currency != o.currency):
			return "", b, badRequest("amount or currency does not match the source")
		case made:
			b = behavior{kind: src.kind, challenge: true}
		case !known:
			return "", b, notFound("source", o.source)
		}
		if a.used[o.source] && !s.settings.AcceptUsedSource {
			return "", b, refused(http.StatusBadRequest, s.settings.UsedSourceCode, "source was already used")
		}
		a.used[o.source] = true
		return o.source, b, nil
	case o.customer != "":
		b, known := magic("cust_", o.customer, a.live)
		if !known {
			return "", b, notFound("customer", o.customer)
		}
		return o.customer, b, nil
	}
	b, known := magic("tokn_", o.card, a.live)
	if t, made := a.tokens[o.card]; made {
		t.used, b, known = true, t.behavior, true
	}
	switch {
	case !known:
		return "", b, notFound("token", o.card)
	case b.used || a.used[o.card]:
		return "", b, refused(s.settings.UsedTokenStatus, "used_token", "token was already used")
	}
	a.used[o.card] = true
	return o.card, b, nil
}

// pay is the moment the money moves, or is held when the capture is deferred.
func (s *Sim) pay(r *request, c *charge) {
	s.closeBuyerPage(c)
	c.authorized = true
	if c.capture {
		s.take(r, c, c.amount)
	} else {
		c.expires = r.now.Add(7 * 24 * time.Hour)
	}
	s.emit(r, "charge.complete", c)
}

func (s *Sim) take(r *request, c *charge, amount int64) {
	c.status, c.captured, c.paidAt = successful, amount, r.now
	c.entry.Captured, c.entry.Status = amount, successful
}

func (s *Sim) fail(r *request, c *charge, code string) {
	s.closeBuyerPage(c)
	c.status, c.failure = failed, code
	c.entry.Declined, c.entry.Status = code, failed
	s.emit(r, "charge.complete", c)
}

// lapse ends what waited too long. It expects the lock to be held and runs before a charge is looked at.
func (s *Sim) lapse(r *request, c *charge) {
	if c.status != pending || c.expires.IsZero() || r.now.Before(c.expires) {
		return
	}
	s.end(r, c, expired, "charge.expire")
}

func (s *Sim) end(r *request, c *charge, status, kind string) {
	s.closeBuyerPage(c)
	c.status = status
	c.entry.Status, c.entry.Voided = status, c.authorized
	s.emit(r, kind, c)
}

// openBuyerPage sends the buyer to the page that stands for the bank's, the wallet's or the shop's counter.
func (s *Sim) openBuyerPage(r *request, c *charge) {
	c.buyerSecret = rand.Text()
	c.authorize = r.base + "/buyer/omise/" + c.buyerSecret
	s.byBuyer[c.buyerSecret] = c
}

func (s *Sim) closeBuyerPage(c *charge) {
	delete(s.byBuyer, c.buyerSecret)
	c.buyerSecret = ""
}

// find expects the lock to be held.
func (s *Sim) find(r *request, id string) (*charge, *apiError) {
	c, ok := r.account.charges[id]
	if !ok {
		return nil, notFound("charge", id)
	}
	s.lapse(r, c)
	return c, nil
}

func getCharge(s *Sim, r *request, id string) (any, *apiError) {
	c, bad := s.find(r, id)
	if bad != nil {
		return nil, bad
	}
	return c.view(r.account.live), nil
}
