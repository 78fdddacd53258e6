package stripesim

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"orderflow/sandbox/parts"
)

var buyerPage = parts.Page("Sandbox bank", `{{if eq .Kind "konbini"}}Sandbox convenience store{{else}}Sandbox bank{{end}}`, `{{if .Open}}<p>{{if eq .Kind "konbini"}}This voucher is worth <strong>{{.Amount}} {{.Currency}}</strong> at the counter until {{.Due}}{{else if eq .Kind "customer_balance"}}A shop waits for a bank transfer of <strong>{{.Amount}} {{.Currency}}</strong>{{else}}A shop asks you to confirm a payment of <strong>{{.Amount}} {{.Currency}}</strong>{{end}} (in the currency's smallest unit). This is a simulation: no money moves.</p>
{{range .Buttons}}<form method="post" action="/buyer/{{$.Secret}}/{{.Verdict}}" style="display:inline"><button id="{{.Verdict}}">{{.Label}}</button></form>
{{end}}{{else}}<p>{{.Sentence}}</p>{{end}}`)

type button struct{ Verdict, Label string }

// buttons are what a buyer can do, by the kind of payment method.
var buttons = map[string][]button{
	kindCard:     {{"pass", "Confirm the payment"}, {"fail", "Refuse"}},
	kindKonbini:  {{"pass", "Pay at the counter"}, {"fail", "Let the voucher expire"}},
	kindTransfer: {{"pass", "Transfer the whole rest"}, {"part", "Transfer half of it"}},
}

// Buyer serves /buyer/{secret}: the page that stands for the bank's or the store's, with a POST behind each button:
// …/pass, …/fail, and …/part for a bank transfer that is not enough.
func (s *Sim) Buyer() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /buyer/{secret}", s.showBuyer)
	mux.HandleFunc("POST /buyer/{secret}/{verdict}", s.judgeBuyer)
	return mux
}

func say(w http.ResponseWriter, status int, sentence string) {
	parts.Show(w, buyerPage, status, map[string]any{"Sentence": sentence, "Kind": ""})
}

const pageGone = "This payment no longer waits for you: it was confirmed, refused, expired or canceled before."

func (s *Sim) showBuyer(w http.ResponseWriter, hr *http.Request) {
	s.mu.Lock()
	in := s.waitingAt(hr.PathValue("secret"))
	var data map[string]any
	if in != nil {
		m, _ := lookupMethod(in.method)
		data = map[string]any{
			"Open": true, "Secret": in.buyerSecret, "Amount": in.amount - in.funded, "Currency": strings.ToUpper(in.currency),
			"Kind": m.kind, "Buttons": buttons[m.kind],
		}
		if in.voucher != nil {
			data["Due"] = time.Unix(in.voucher.ExpiresAt, 0).UTC().Format(time.RFC1123)
		}
	}
	s.mu.Unlock()
	if data == nil {
		say(w, http.StatusGone, pageGone)
		return
	}
	parts.Show(w, buyerPage, http.StatusOK, data)
}

// waitingAt finds the intent behind a page, nil when it no longer waits. It expects the lock to be held.
func (s *Sim) waitingAt(buyerSecret string) *intent {
	if in := s.byBuyer[buyerSecret]; in != nil {
		s.lapse(&request{account: s.accounts[in.account], now: s.cfg.Now()})
	}
	return s.byBuyer[buyerSecret]
}

func (s *Sim) judgeBuyer(w http.ResponseWriter, hr *http.Request) {
	verdict := hr.PathValue("verdict")
	s.mu.Lock()
	in := s.waitingAt(hr.PathValue("secret"))
	if in == nil {
		s.mu.Unlock()
		say(w, http.StatusGone, pageGone)
		return
	}
	m, _ := lookupMethod(in.method)
	known := false
	for _, b := range buttons[m.kind] {
		known = known || b.Verdict == verdict
	}
	if !known {
		s.mu.Unlock()
		say(w, http.StatusNotFound, "There is no such button.")
		return
	}
	r := &request{account: s.accounts[in.account], now: s.cfg.Now()}
	status := s.judged(r, in, m.kind, verdict)
	back, secret, events := "", in.clientSecret, s.drainEvents(r.account)
	if m.kind == kindCard { // the others keep the buyer, who came here by himself
		back = in.returnURL
	}
	s.mu.Unlock()
	s.publish(r.account, events)
	goBack(w, hr, back, in.id, secret, status)
}

func goBack(w http.ResponseWriter, hr *http.Request, back, intentID, secret, status string) {
	if back == "" {
		say(w, http.StatusOK, "Thank you. You can close this page.")
		return
	}
	u, err := url.Parse(back)
	if err != nil {
		say(w, http.StatusOK, "Thank you. The shop's return address cannot be read.")
		return
	}
	q := u.Query()
	q.Set("payment_intent", intentID)
	q.Set("payment_intent_client_secret", secret)
	q.Set("redirect_status", status)
	u.RawQuery = q.Encode()
	w.Header().Set("Referrer-Policy", "no-referrer")
	http.Redirect(w, hr, u.String(), http.StatusSeeOther)
}

// judged carries an intent on after the buyer has acted, and says how it ended as the return address does.
func (s *Sim) judged(r *request, in *intent, kind, verdict string) string {
	switch {
	case kind == kindTransfer && verdict == "part":
		s.fund(r, in, (in.amount-in.funded+1)/2)
		return "pending"
	case kind == kindTransfer:
		s.fund(r, in, in.amount-in.funded)
		return succeeded
	case kind == kindKonbini && verdict == "fail":
		s.expire(r, in)
		return "failed"
	}
	s.remember(in)
	s.closeBuyerPage(in)
	if verdict == "fail" {
		s.failed(r, in, nil, decline{code: "payment_intent_authentication_failure", message: "The provided PaymentMethod has failed authentication. You can provide payment_method_data or a new PaymentMethod to attempt to fulfill this PaymentIntent again."})
		return "failed"
	}
	s.charged(r, in)
	return succeeded
}

// Challenge lets a test act as the buyer of an intent without a browser: pass confirms, pays at the counter or transfers
// the whole rest; otherwise the buyer refuses or lets the voucher expire. It reports whether the intent was waiting; a bank
// transfer cannot be refused.
func (s *Sim) Challenge(intentID string, pass bool) bool {
	return s.act(intentID, func(r *request, in *intent) bool {
		m, _ := lookupMethod(in.method)
		if m.kind == kindTransfer && !pass {
			return false
		}
		s.judged(r, in, m.kind, map[bool]string{true: "pass", false: "fail"}[pass])
		return true
	})
}
