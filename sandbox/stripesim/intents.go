package stripesim

import (
	"crypto/rand"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"
)

// The statuses of an intent. There is no "failed": a decline leads back to requires_payment_method.
const (
	needsMethod  = "requires_payment_method"
	needsConfirm = "requires_confirmation"
	needsAction  = "requires_action"
	needsCapture = "requires_capture"
	succeeded    = "succeeded"
	canceled     = "canceled"
)

// intent is a payment intent with what the simulator alone knows.
type intent struct {
	account       string
	live          bool
	id            string
	amount        int64
	received      int64
	capturable    int64
	currency      string
	status        string
	captureMethod string
	method        string
	types         []string
	automatic     *automaticView
	customer      string
	description   string
	returnURL     string
	metadata      map[string]string
	clientSecret  string
	buyerSecret   string // names the hosted page; set while the buyer has to act
	buyerURL      string
	voucher       *voucherView // set while a convenience store may take the money
	funded        int64        // transferred so far, in wait for the rest
	voucherDays   int64        // how long a voucher lives
	transferType  string       // jp_bank_transfer, …
	created       time.Time
	canceledAt    time.Time
	cancelReason  string
	charge        *charge
	lastError     *apiError
	past          []snapshot // older renderings, kept only while the search lags
}

var createParams = []string{
	"amount", "currency", "customer", "payment_method", "payment_method_types", "automatic_payment_methods", "confirm",
	"capture_method", "confirmation_method", "off_session", "error_on_requires_action", "return_url", "description", "metadata",
	"payment_method_options", "payment_method_data", "statement_descriptor", "statement_descriptor_suffix", "receipt_email",
	"setup_future_usage", "shipping", "use_stripe_sdk", "expand", "mandate", "mandate_data", "radar_options", "on_behalf_of",
	"transfer_data", "transfer_group", "application_fee_amount",
}

func create(s *Sim, r *request, _ string) (any, *apiError) {
	in, bad := s.newIntent(r)
	if bad != nil {
		return nil, bad
	}
	now, bad := r.params.boolean("confirm")
	if bad != nil {
		return nil, bad
	}
	var order confirmation
	if now && in.method == "" {
		return nil, missing("payment_method")
	}
	if now {
		if order, bad = s.readConfirmation(r, in); bad != nil {
			return nil, bad
		}
	} else if r.params.has("return_url") || r.params.has("error_on_requires_action") || r.params.has("off_session") {
		return nil, badParameter("", "confirm", "return_url, off_session and error_on_requires_action can only be used when confirm is true.")
	}
	if r.refuse != nil && !now {
		return nil, r.refuse.err()
	}
	a := r.account
	a.intents[in.id] = in
	a.ordered = append(a.ordered, in)
	s.emit(r, "payment_intent.created", in.view())
	if now {
		return s.confirmNow(r, in, order)
	}
	return r.expanded(in), nil
}

func (s *Sim) newIntent(r *request) (*intent, *apiError) {
	p := r.params
	if bad := p.known(createParams...); bad != nil {
		return nil, bad
	}
	if bad := r.expandable("latest_charge"); bad != nil {
		return nil, bad
	}
	amount, has, bad := p.integer("amount")
	switch {
	case bad != nil:
		return nil, bad
	case !has:
		return nil, missing("amount")
	case p.text("currency") == "":
		return nil, missing("currency")
	}
	currency := strings.ToLower(p.text("currency"))
	if !listed(supported, currency) {
		return nil, badParameter("", "currency", "Invalid currency: %s. Stripe currently supports these currencies:%s", currency, supported)
	}
	if bad := s.checkAmount(amount, currency); bad != nil {
		return nil, bad
	}
	meta, bad := p.metadata()
	if bad != nil {
		return nil, bad
	}
	in := &intent{
		account: r.account.name, live: r.account.live, id: id("pi"), amount: amount, currency: currency, status: needsMethod,
		captureMethod: "automatic", customer: p.text("customer"), description: p.text("description"), metadata: meta, created: r.now,
	}
	in.clientSecret = in.id + "_secret_" + rand.Text()
	if c := p.text("capture_method"); c != "" {
		if !slices.Contains([]string{"automatic", "automatic_async", "manual"}, c) {
			return nil, badParameter("", "capture_method", "Invalid capture_method: must be one of automatic, automatic_async, or manual")
		}
		in.captureMethod = c
	}
	if bad := in.readMethods(p); bad != nil {
		return nil, bad
	}
	return in, nil
}

// readMethods sets which kinds of payment method are allowed. Since 2023-08-16 an intent that names none takes them all.
func (in *intent) readMethods(p params) *apiError {
	in.types = p.list("payment_method_types")
	auto := p.under("automatic_payment_methods")
	if len(in.types) > 0 && len(auto) > 0 && auto["enabled"] == "true" {
		return badParameter("parameters_exclusive", "payment_method_types", "You may only specify one of these parameters: automatic_payment_methods, payment_method_types.")
	}
	for _, t := range in.types {
		if t != kindCard && t != kindKonbini && t != kindTransfer {
			return badParameter("payment_method_not_available", "payment_method_types", "The sandbox offers the payment method types card, konbini and customer_balance only.")
		}
		if t == kindKonbini && in.currency != "jpy" {
			return badParameter("", "payment_method_types", "The currency provided (%s) is invalid for one or more payment method types on this PaymentIntent: konbini takes jpy.", in.currency)
		}
	}
	if bad := in.readOptions(p); bad != nil {
		return bad
	}
	if len(in.types) == 0 {
		in.types = []string{kindCard}
		if in.currency == "jpy" {
			in.types = append(in.types, kindKonbini)
		}
		if in.customer != "" {
			in.types = append(in.types, kindTransfer)
		}
		in.automatic = &automaticView{Enabled: true, AllowRedirects: "always"}
		if v := auto["allow_redirects"]; v != "" {
			if v != "always" && v != "never" {
				return badParameter("", "automatic_payment_methods[allow_redirects]", "Invalid automatic_payment_methods[allow_redirects]: must be one of always or never")
			}
			in.automatic.AllowRedirects = v
		}
	}
	if data := p.under("payment_method_data"); len(data) > 0 {
		if data["type"] != kindTransfer || p.has("payment_method") {
			return badParameter("", "payment_method_data", "The sandbox makes payment methods of type customer_balance only, and none beside a payment_method.")
		}
		return in.useMethod("pm_bank_transfer__" + rand.Text()[:16])
	}
	return in.useMethod(p.text("payment_method"))
}

func (in *intent) useMethod(name string) *apiError {
	if name == "" {
		return nil
	}
	m, ok := lookupMethod(name)
	if !ok {
		return badParameter("resource_missing", "payment_method", "No such PaymentMethod: '%s'", name)
	}
	if bad := in.allows(m.kind); bad != nil {
		return bad
	}
	in.method = name
	if in.status == needsMethod {
		in.status = needsConfirm
	}
	return nil
}

// expandable is checked before anything is done: a bad expand must not hide an effect.
func (r *request) expandable(names ...string) *apiError {
	for _, e := range r.params.list("expand") {
		if !slices.Contains(names, e) {
			return badParameter("", "expand", "This property cannot be expanded (%s).", e)
		}
	}
	return nil
}

// expanded renders an intent with latest_charge as the request wants it.
func (r *request) expanded(in *intent) intentView {
	v := in.view()
	if in.charge != nil && slices.Contains(r.params.list("expand"), "latest_charge") {
		v.LatestCharge = in.charge.view()
	}
	return v
}

// begin finds the intent of a call and checks its parameter names.
func (r *request) begin(id string, names ...string) (*intent, *apiError) {
	in, ok := r.account.intents[id]
	if !ok {
		return nil, noSuch("payment_intent", "intent", id)
	}
	if bad := r.params.known(names...); bad != nil {
		return nil, bad
	}
	return in, r.expandable("latest_charge")
}

func capture(s *Sim, r *request, id string) (any, *apiError) {
	in, bad := r.begin(id, "amount_to_capture", "application_fee_amount", "final_capture", "metadata", "statement_descriptor", "statement_descriptor_suffix", "transfer_data", "expand")
	if bad != nil {
		return nil, bad
	}
	amount, has, bad := r.params.integer("amount_to_capture")
	if bad != nil {
		return nil, bad
	}
	switch {
	case r.refuse != nil:
		return nil, r.refuse.err()
	case in.status != needsCapture:
		return nil, unexpectedState(in, "This PaymentIntent could not be captured because it has a status of %s. Only a PaymentIntent with one of the following statuses may be captured: requires_capture.", in.status)
	case has && amount < 1:
		return nil, badParameter("parameter_invalid_integer", "amount_to_capture", "This value must be greater than or equal to 1.")
	case amount > in.capturable:
		return nil, badParameter("amount_too_large", "amount_to_capture", "Amount to capture must not be greater than the capturable amount.")
	case !has:
		amount = in.capturable
	}
	s.remember(in)
	in.take(s, r, amount)
	s.emit(r, "charge.captured", in.charge.view())
	s.emit(r, "payment_intent.succeeded", in.view())
	return r.expanded(in), nil
}

// ErrNotHeld is said of a payment that the bank does not hold money for.
var ErrNotHeld = errors.New("the bank holds no money for that payment, or not as much")

// Capture plays the merchant who captures minor units of a held payment at the dashboard; the rest is released.
func (s *Sim) Capture(intentID string, minor int64) error {
	s.mu.Lock()
	for _, a := range s.accounts {
		in := a.intents[intentID]
		if in == nil || in.status != needsCapture || minor < 1 || minor > in.capturable {
			continue
		}
		r := &request{account: a, now: s.cfg.Now()}
		in.take(s, r, minor)
		s.emit(r, "charge.captured", in.charge.view())
		s.emit(r, "payment_intent.succeeded", in.view())
		events := s.drainEvents(a)
		s.mu.Unlock()
		s.publish(a, events)
		return nil
	}
	s.mu.Unlock()
	return ErrNotHeld
}

// Lapse plays the bank that lets held money go in time.
func (s *Sim) Lapse(intentID string) error {
	s.mu.Lock()
	for _, a := range s.accounts {
		in := a.intents[intentID]
		if in == nil || in.status != needsCapture {
			continue
		}
		r := &request{account: a, now: s.cfg.Now()}
		s.letGo(r, in, "automatic")
		events := s.drainEvents(a)
		s.mu.Unlock()
		s.publish(a, events)
		return nil
	}
	s.mu.Unlock()
	return ErrNotHeld
}

// take moves the money, into the books as well.
func (in *intent) take(s *Sim, r *request, amount int64) {
	in.charge.captured, in.received, in.capturable, in.status = amount, amount, 0, succeeded
	s.release(r, in.charge, in.charge.amount-amount)
	if e := s.book.byID[in.charge.id]; e != nil {
		e.Captured += amount
	}
}

func cancel(s *Sim, r *request, id string) (any, *apiError) {
	in, bad := r.begin(id, "cancellation_reason", "expand")
	if bad != nil {
		return nil, bad
	}
	reason := r.params.text("cancellation_reason")
	if reason != "" && !slices.Contains([]string{"duplicate", "fraudulent", "requested_by_customer", "abandoned"}, reason) {
		return nil, badParameter("", "cancellation_reason", "Invalid cancellation_reason: must be one of duplicate, fraudulent, requested_by_customer, or abandoned")
	}
	if r.refuse != nil {
		return nil, r.refuse.err()
	}
	if in.status == succeeded || in.status == canceled {
		return nil, unexpectedState(in, "You cannot cancel this PaymentIntent because it has a status of %s. Only a PaymentIntent with one of the following statuses may be canceled: requires_payment_method, requires_capture, requires_confirmation, requires_action, processing.", in.status)
	}
	s.remember(in)
	s.letGo(r, in, reason)
	return r.expanded(in), nil
}

// letGo ends an intent that took nothing.
func (s *Sim) letGo(r *request, in *intent, reason string) {
	if in.status == needsCapture {
		in.charge.voided = true
		s.release(r, in.charge, in.charge.amount)
		if e := s.book.byID[in.charge.id]; e != nil {
			e.Voided = true
		}
	}
	s.closeBuyerPage(in)
	in.voucher = nil
	in.status, in.capturable, in.canceledAt, in.cancelReason = canceled, 0, r.now, reason
	s.emit(r, "payment_intent.canceled", in.view())
}

// automaticView and intentView are Stripe's shapes.
type automaticView struct {
	AllowRedirects string `json:"allow_redirects"`
	Enabled        bool   `json:"enabled"`
}

type nextAction struct {
	Type          string        `json:"type"`
	RedirectToURL *redirect     `json:"redirect_to_url,omitempty"`
	UseStripeSDK  *struct{}     `json:"use_stripe_sdk,omitempty"`
	Konbini       *voucherView  `json:"konbini_display_details,omitempty"`
	Transfer      *transferView `json:"display_bank_transfer_instructions,omitempty"`
}

type redirect struct {
	ReturnURL string `json:"return_url"`
	URL       string `json:"url"`
}

type intentView struct {
	ID                      string            `json:"id"`
	Object                  string            `json:"object"`
	Amount                  int64             `json:"amount"`
	AmountCapturable        int64             `json:"amount_capturable"`
	AmountReceived          int64             `json:"amount_received"`
	AutomaticPaymentMethods *automaticView    `json:"automatic_payment_methods"`
	CanceledAt              *int64            `json:"canceled_at"`
	CancellationReason      *string           `json:"cancellation_reason"`
	CaptureMethod           string            `json:"capture_method"`
	ClientSecret            string            `json:"client_secret"`
	ConfirmationMethod      string            `json:"confirmation_method"`
	Created                 int64             `json:"created"`
	Currency                string            `json:"currency"`
	Customer                *string           `json:"customer"`
	Description             *string           `json:"description"`
	LastPaymentError        *apiError         `json:"last_payment_error"`
	LatestCharge            any               `json:"latest_charge"`
	Livemode                bool              `json:"livemode"`
	Metadata                map[string]string `json:"metadata"`
	NextAction              *nextAction       `json:"next_action"`
	PaymentMethod           *string           `json:"payment_method"`
	PaymentMethodTypes      []string          `json:"payment_method_types"`
	Status                  string            `json:"status"`
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func (in *intent) view() intentView {
	v := intentView{
		ID: in.id, Object: "payment_intent", Amount: in.amount, AmountCapturable: in.capturable, AmountReceived: in.received,
		AutomaticPaymentMethods: in.automatic, CancellationReason: optional(in.cancelReason), CaptureMethod: in.captureMethod,
		ClientSecret: in.clientSecret, ConfirmationMethod: "automatic", Created: in.created.Unix(), Currency: in.currency,
		Customer: optional(in.customer), Description: optional(in.description), LastPaymentError: in.lastError,
		Livemode: in.live, Metadata: in.metadata, PaymentMethod: optional(in.method), PaymentMethodTypes: in.types, Status: in.status,
	}
	if in.charge != nil {
		v.LatestCharge = in.charge.id
	}
	if !in.canceledAt.IsZero() {
		at := in.canceledAt.Unix()
		v.CanceledAt = &at
	}
	if in.status == needsAction {
		v.NextAction = in.nextAction()
	}
	return v
}

func (in *intent) nextAction() *nextAction {
	switch m, _ := lookupMethod(in.method); {
	case m.kind == kindKonbini:
		return &nextAction{Type: "konbini_display_details", Konbini: in.voucher}
	case m.kind == kindTransfer:
		return &nextAction{Type: "display_bank_transfer_instructions", Transfer: in.instructions()}
	case in.returnURL != "":
		return &nextAction{Type: "redirect_to_url", RedirectToURL: &redirect{ReturnURL: in.returnURL, URL: in.buyerURL}}
	}
	return &nextAction{Type: "use_stripe_sdk", UseStripeSDK: &struct{}{}}
}

func (in *intent) bookEntry(c *charge) *ChargeEntry {
	return &ChargeEntry{
		At: c.created, Account: in.account, Livemode: in.live, Intent: in.id, Charge: c.id,
		MerchantReference: in.metadata["merchant_reference"], Metadata: maps.Clone(in.metadata), Currency: in.currency, Amount: c.amount,
	}
}
