package stripesim

import (
	"crypto/rand"
	"slices"
	"strings"
)

// confirmation is a validated order to charge.
type confirmation struct {
	method       string
	returnURL    string
	offSession   bool
	failOnAction bool
}

// readConfirmation validates without changing anything: what it refuses is not stored under the key.
func (s *Sim) readConfirmation(r *request, in *intent) (confirmation, *apiError) {
	p := r.params
	c := confirmation{method: p.text("payment_method"), returnURL: p.text("return_url")}
	if c.method != "" {
		m, ok := lookupMethod(c.method)
		if !ok {
			return c, badParameter("resource_missing", "payment_method", "No such PaymentMethod: '%s'", c.method)
		}
		if bad := in.allows(m.kind); bad != nil {
			return c, bad
		}
	}
	if c.returnURL == "" {
		c.returnURL = in.returnURL
	}
	if bad := webAddress("return_url", c.returnURL); bad != nil {
		return c, bad
	}
	var bad *apiError
	switch p.text("off_session") { // also "one_off" and "recurring", which mean true
	case "one_off", "recurring":
		c.offSession = true
	default:
		if c.offSession, bad = p.boolean("off_session"); bad != nil {
			return c, bad
		}
	}
	if c.failOnAction, bad = p.boolean("error_on_requires_action"); bad != nil {
		return c, bad
	}
	if bad := in.fundable(c.method); bad != nil {
		return c, bad
	}
	if in.automatic != nil && in.automatic.AllowRedirects != "never" && c.returnURL == "" && !c.offSession {
		return c, badParameter("", "return_url", "This PaymentIntent is configured to accept payment methods enabled in your Dashboard. Because some of these payment methods might redirect your customer off of your page, you must provide a `return_url`. If you don't want to accept redirect-based payment methods, set `automatic_payment_methods[enabled]` to `true` and `automatic_payment_methods[allow_redirects]` to `never` when creating Setup Intents and Payment Intents.")
	}
	return c, nil
}

func confirm(s *Sim, r *request, id string) (any, *apiError) {
	in, bad := r.begin(id, "payment_method", "return_url", "off_session", "error_on_requires_action", "payment_method_options", "payment_method_data",
		"payment_method_types", "receipt_email", "setup_future_usage", "shipping", "use_stripe_sdk", "expand", "mandate", "mandate_data", "capture_method", "radar_options", "client_secret")
	if bad != nil {
		return nil, bad
	}
	c, bad := s.readConfirmation(r, in)
	if bad != nil {
		return nil, bad
	}
	return s.confirmNow(r, in, c)
}

// confirmNow charges, declines or asks the buyer to act. Its answers are stored.
func (s *Sim) confirmNow(r *request, in *intent, c confirmation) (any, *apiError) {
	switch {
	case in.status == succeeded || in.status == needsCapture:
		return nil, unexpectedState(in, "You cannot confirm this PaymentIntent because it has already succeeded after being previously confirmed.")
	case !slices.Contains([]string{needsMethod, needsConfirm, needsAction}, in.status):
		return nil, unexpectedState(in, "You cannot confirm this PaymentIntent because it has a status of %s. Only a PaymentIntent with one of the following statuses may be confirmed: requires_confirmation, requires_action.", in.status)
	case c.method == "" && in.method == "":
		return nil, unexpectedState(in, "You cannot confirm this PaymentIntent because it's missing a payment method. You can either update the PaymentIntent with a payment method and then confirm it again, or confirm it again directly with a payment method.")
	}
	s.remember(in)
	s.closeBuyerPage(in)
	if c.method != "" {
		in.method = c.method
	}
	in.returnURL, in.lastError = c.returnURL, nil
	m, _ := lookupMethod(in.method)
	switch {
	case r.refuse != nil:
		return nil, s.declined(r, in, *r.refuse)
	case m.decline != nil:
		return nil, s.declined(r, in, *m.decline)
	case m.challenge && c.offSession:
		return nil, s.declined(r, in, decline{"authentication_required", "authentication_required", "Your card was declined. This transaction requires authentication."})
	case m.kind != kindCard && in.captureMethod == "manual":
		return nil, unexpectedState(in, "The payment method type %s does not support manual capture.", m.kind)
	case (m.challenge || m.kind != kindCard) && c.failOnAction:
		return nil, s.failed(r, in, nil, decline{code: "payment_intent_action_required", message: "This payment required an authentication action to complete, but `error_on_requires_action` was set."})
	case m.challenge, m.kind != kindCard:
		s.openBuyerPage(r, in)
		if m.kind == kindKonbini {
			in.print(r.now)
			r.account.waiting[in] = true
		}
		s.emit(r, "payment_intent.requires_action", in.view())
		return r.expanded(in), nil
	}
	s.charged(r, in)
	return r.expanded(in), nil
}

// charged is the moment the money moves, or is held when the capture is manual.
func (s *Sim) charged(r *request, in *intent) {
	c := &charge{id: id("ch"), intent: in, amount: in.amount, status: succeeded, method: in.method, created: r.now}
	r.account.addCharge(c)
	in.charge, in.lastError, in.voucher, in.funded = c, nil, nil, 0
	s.book.charge(in.bookEntry(c))
	if m, _ := lookupMethod(in.method); m.held || in.captureMethod == "manual" {
		in.status, in.capturable = needsCapture, in.amount
		s.emit(r, "charge.succeeded", c.view())
		s.emit(r, "payment_intent.amount_capturable_updated", in.view())
		return
	}
	in.take(s, r, in.amount)
	s.emit(r, "charge.succeeded", c.view())
	s.emit(r, "payment_intent.succeeded", in.view())
}

// declined makes a failed charge and returns the intent to requires_payment_method.
func (s *Sim) declined(r *request, in *intent, d decline) *apiError {
	c := &charge{id: id("ch"), intent: in, amount: in.amount, status: "failed", method: in.method, created: r.now, failure: d}
	r.account.addCharge(c)
	in.charge = c
	e := in.bookEntry(c)
	e.Declined = d.declineCode
	s.book.charge(e)
	s.emit(r, "charge.failed", c.view())
	return s.failed(r, in, c, d)
}

func (s *Sim) failed(r *request, in *intent, c *charge, d decline) *apiError {
	last := d.err()
	if strings.HasPrefix(d.code, "payment_intent_payment_attempt") {
		last.Type = "invalid_request_error" // no card said so
	}
	last.PaymentMethod = viewMethod(in.method)
	if c != nil {
		last.Charge = c.id
	}
	in.status, in.method, in.lastError, in.voucher = needsMethod, "", last, nil
	s.emit(r, "payment_intent.payment_failed", in.view())
	answer := *last
	v := in.view()
	answer.PaymentIntent = &v
	return &answer
}

// openBuyerPage sends the buyer to the page that stands for the bank's.
func (s *Sim) openBuyerPage(r *request, in *intent) {
	in.status = needsAction
	in.buyerSecret = rand.Text()
	in.buyerURL = r.base + "/buyer/" + in.buyerSecret
	s.byBuyer[in.buyerSecret] = in
}

func (s *Sim) closeBuyerPage(in *intent) {
	delete(s.byBuyer, in.buyerSecret)
	in.buyerSecret, in.buyerURL = "", ""
}
