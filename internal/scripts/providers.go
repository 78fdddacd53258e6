package scripts

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"orderflow/sandbox/twoctwopsim"
)

// provider is one payment provider in the words its simulator understands.
type provider struct {
	gateway  string
	currency string
	card     func(name string) map[string]any // pays at once
	refused  func(name string) map[string]any
	deposit  func(name string) map[string]any // waits for the buyer's money
	payout   bool                             // a deposit goes back to a bank account

	arrive      func(w *World, payment string) bool                                    // the buyer's money; false = the provider takes none
	dashboard   func(ctx context.Context, w *World, payment string, minor int64) error // a refund by hand, at the provider
	dispute     func(w *World, payment string, minor int64) error                      // the buyer's bank argues
	disputeEnds func(w *World, payment string, won bool) error

	lapse func(ctx context.Context, w *World, payment string) error // its own time for the buyer's money is over; nil = only our clock notices
}

var providers = []*provider{
	{
		gateway: "stripe", currency: "JPY", card: typed("card", "pm_card_visa__"), refused: typed("card", "pm_card_visa_chargeDeclined__"),
		deposit:     typed("konbini", "pm_konbini__"),
		dispute:     func(w *World, payment string, minor int64) error { return w.Sandbox.Stripe().Dispute(payment, minor) },
		disputeEnds: func(w *World, payment string, won bool) error { return w.Sandbox.Stripe().CloseDispute(payment, won) },
		arrive:      func(w *World, payment string) bool { return w.Sandbox.Stripe().Challenge(payment, true) },
		lapse: func(_ context.Context, w *World, payment string) error {
			w.Sandbox.Stripe().Challenge(payment, false) // the voucher runs out
			return nil
		},
		dashboard: func(ctx context.Context, w *World, payment string, minor int64) error {
			return w.dashboardPost(ctx, w.Sandbox.StripeURL()+"/v1/refunds", url.Values{"payment_intent": {payment}, "amount": {fmt.Sprint(minor)}},
				func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+w.StripeKey) })
		},
	},
	{
		gateway: "omise", currency: "THB", card: typed("card", "tokn_test_ok__"), refused: typed("card", "tokn_test_insufficient__"),
		deposit:     typed("source", "src_test_promptpay__"),
		dispute:     func(w *World, payment string, minor int64) error { return w.Sandbox.Omise().Dispute(payment, minor) },
		disputeEnds: func(w *World, payment string, won bool) error { return w.Sandbox.Omise().CloseDispute(payment, won) },
		arrive:      func(w *World, payment string) bool { return w.Sandbox.Omise().Decide(payment, true) },
		lapse: func(ctx context.Context, w *World, payment string) error {
			return w.dashboardPost(ctx, w.Sandbox.OmiseURL()+"/charges/"+payment+"/expire", nil, func(r *http.Request) { r.SetBasicAuth(w.OmiseKey, "") })
		},
		dashboard: func(_ context.Context, w *World, payment string, minor int64) error {
			return w.Sandbox.Omise().Refund(payment, minor)
		},
	},
	{
		gateway: "twoctwop", currency: "THB", card: typed("card", "ok__"), refused: typed("card", "insufficient__"), deposit: typed("promptpay", ""),
		arrive: func(w *World, payment string) bool {
			sim := w.Sandbox.TwoCTwoP()
			return sim.Act(payment, true) || sim.Receive(payment, Total) // a bank transfers also what is too late
		},
		dashboard: func(_ context.Context, w *World, payment string, minor int64) error {
			return w.Sandbox.TwoCTwoP().Refund(w.Merchant, payment, minor)
		},
	},
	{
		gateway: "toss", currency: "KRW", card: tossed("card", "pay_ok"), refused: tossed("card", "pay_declined"), deposit: tossed("virtual_account", "pay_va"),
		payout: true,
		arrive: func(w *World, payment string) bool { return w.Sandbox.Toss().Deposit(payment) == nil },
		dashboard: func(_ context.Context, w *World, payment string, minor int64) error {
			return w.Sandbox.Toss().Refund(payment, minor)
		},
	},
}

func providerOf(gateway string) *provider {
	for _, p := range providers {
		if p.gateway == gateway {
			return p
		}
	}
	return nil
}

func typed(kind, token string) func(string) map[string]any {
	return func(name string) map[string]any {
		m := map[string]any{"type": kind}
		if token != "" {
			m["token"] = token + name
		}
		if kind == "card" {
			m["return_url"] = "https://shop.example/" + name
		}
		return m
	}
}

// tossed is a payment that began in Toss's window: its key says what was paid there.
func tossed(kind, word string) func(string) map[string]any {
	return func(name string) map[string]any {
		reference := "ref-" + strings.ReplaceAll(name, "_", "-")
		return map[string]any{"type": kind, "token": fmt.Sprintf("%s__%s__%d__KRW", word, reference, Total), "reference": reference, "amount": fmt.Sprint(Total)}
	}
}

// dashboardPost is the merchant at a provider's own dashboard.
func (w *World) dashboardPost(ctx context.Context, to string, form url.Values, who func(*http.Request)) error {
	req, err := http.NewRequestWithContext(ctx, "POST", to, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	who(req)
	res, err := (&http.Client{Timeout: time.Minute}).Do(req)
	if err != nil {
		return err
	}
	text, _ := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("refused: %s", text)
	}
	return nil
}

// Settlement is the file that 2C2P, which has no list, would send: every payment that took money, and those of which some went back
// once more, at the time when it did.
func (w *World) Settlement() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	var b bytes.Buffer
	b.WriteString("invoice_number,amount,currency,status,time\n")
	row := func(c twoctwopsim.ChargeEntry, status string, at time.Time) {
		fmt.Fprintf(&b, "%s,%d.%02d,%s,%s,%s\n", c.MerchantReference, c.Captured/100, c.Captured%100, c.Currency, status, at.UTC().Format(time.RFC3339Nano))
	}
	for _, c := range w.Sandbox.TwoCTwoP().Charges(twoctwopsim.Filter{CapturedOnly: true}) {
		row(c, "S", c.At)
		if seen := w.back[c.MerchantReference]; seen.minor != c.Refunded {
			w.back[c.MerchantReference] = wentBack{c.Refunded, time.Now()}
		}
		if c.Refunded > 0 {
			row(c, "RF", w.back[c.MerchantReference].at)
		}
	}
	return b.Bytes()
}

// wentBack is what of a payment had gone back, and when that was seen.
type wentBack struct {
	minor int64
	at    time.Time
}
