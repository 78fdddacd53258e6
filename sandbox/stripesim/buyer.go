package stripesim

import (
	"html/template"
	"net/http"
	"net/url"
	"strings"
)

var buyerPage = template.Must(template.New("buyer").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Sandbox bank</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:32rem;margin:4rem auto;padding:0 1rem}button{font:inherit;padding:.6rem 1.2rem;margin-right:.6rem}</style>
</head><body>
<h1>Sandbox bank</h1>
{{if .Open}}<p>A shop asks you to confirm a payment of <strong>{{.Amount}} {{.Currency}}</strong> (in the currency's smallest unit). This is a simulation: no money moves.</p>
<form method="post" action="/buyer/{{.Secret}}/pass" style="display:inline"><button id="pass">Confirm the payment</button></form>
<form method="post" action="/buyer/{{.Secret}}/fail" style="display:inline"><button id="fail">Refuse</button></form>
{{else}}<p>{{.Sentence}}</p>{{end}}
</body></html>
`))

// Buyer serves /buyer/{secret}: the page that stands for the bank's, with POST …/pass and …/fail behind its two buttons.
func (s *Sim) Buyer() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /buyer/{secret}", s.showBuyer)
	mux.HandleFunc("POST /buyer/{secret}/{verdict}", s.judgeBuyer)
	return mux
}

func say(w http.ResponseWriter, status int, sentence string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_ = buyerPage.Execute(w, map[string]any{"Sentence": sentence})
}

const pageGone = "This payment no longer waits for you: it was confirmed, refused or canceled before."

func (s *Sim) showBuyer(w http.ResponseWriter, hr *http.Request) {
	s.mu.Lock()
	in := s.byBuyer[hr.PathValue("secret")]
	var data map[string]any
	if in != nil {
		data = map[string]any{"Open": true, "Secret": in.buyerSecret, "Amount": in.amount, "Currency": strings.ToUpper(in.currency)}
	}
	s.mu.Unlock()
	if data == nil {
		say(w, http.StatusGone, pageGone)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = buyerPage.Execute(w, data)
}

func (s *Sim) judgeBuyer(w http.ResponseWriter, hr *http.Request) {
	verdict := hr.PathValue("verdict")
	if verdict != "pass" && verdict != "fail" {
		say(w, http.StatusNotFound, "There is no such button.")
		return
	}
	s.mu.Lock()
	in := s.byBuyer[hr.PathValue("secret")]
	if in == nil {
		s.mu.Unlock()
		say(w, http.StatusGone, pageGone)
		return
	}
	r := &request{account: s.accounts[in.account], now: s.cfg.Now()}
	s.remember(in)
	s.closeBuyerPage(in)
	status := s.authenticated(r, in, verdict == "pass")
	back, events := in.returnURL, s.drainEvents(r.account)
	secret := in.clientSecret
	s.mu.Unlock()
	s.publish(r.account, events)

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
	q.Set("payment_intent", in.id)
	q.Set("payment_intent_client_secret", secret)
	q.Set("redirect_status", status)
	u.RawQuery = q.Encode()
	w.Header().Set("Referrer-Policy", "no-referrer")
	http.Redirect(w, hr, u.String(), http.StatusSeeOther)
}

// authenticated carries an intent on after the buyer has acted.
func (s *Sim) authenticated(r *request, in *intent, passed bool) string {
	if !passed {
		s.failed(r, in, nil, decline{code: "payment_intent_authentication_failure", message: "The provided PaymentMethod has failed authentication. You can provide payment_method_data or a new PaymentMethod to attempt to fulfill this PaymentIntent again."})
		return "failed"
	}
	s.charged(r, in)
	return succeeded
}

// Challenge lets a test act as the buyer of an intent without a browser. It reports whether the intent was waiting.
func (s *Sim) Challenge(intentID string, pass bool) bool {
	s.mu.Lock()
	var in *intent
	for _, a := range s.accounts {
		if found := a.intents[intentID]; found != nil && found.status == needsAction {
			in = found
		}
	}
	if in == nil {
		s.mu.Unlock()
		return false
	}
	r := &request{account: s.accounts[in.account], now: s.cfg.Now()}
	s.remember(in)
	s.closeBuyerPage(in)
	s.authenticated(r, in, pass)
	events := s.drainEvents(r.account)
	s.mu.Unlock()
	s.publish(r.account, events)
	return true
}
