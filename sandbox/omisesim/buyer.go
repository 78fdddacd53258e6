package omisesim

import (
	"net/http"
	"strings"

	"orderflow/sandbox/parts"
)

var buyerPage = parts.Page("Sandbox payment page", "Sandbox payment page", `{{if .Open}}<p>A shop asks you to pay <strong>{{.Amount}} {{.Currency}}</strong> (in the currency's smallest unit){{if .Kind}} by {{.Kind}}{{end}}. This is a simulation: no money moves.</p>
<form method="post" action="/buyer/omise/{{.Secret}}/pass" style="display:inline"><button id="pass">Pay</button></form>
<form method="post" action="/buyer/omise/{{.Secret}}/fail" style="display:inline"><button id="fail">Refuse</button></form>
{{else}}<p>{{.Sentence}}</p>{{end}}`)

// qrImage stands for the picture of a QR code. What it would hold is the address of the page.
const qrImage = `<svg xmlns="http://www.w3.org/2000/svg" width="160" height="160"><rect width="160" height="160" fill="#fff" stroke="#000"/>` +
	`<text x="80" y="84" font-size="16" text-anchor="middle">sandbox QR</text></svg>`

// Buyer serves /buyer/omise/{secret}: the page that stands for the bank's, the wallet's or the counter's, with POST …/pass
// and …/fail behind its two buttons, and the picture of a QR code.
func (s *Sim) Buyer() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /buyer/omise/{secret}", s.showBuyer)
	mux.HandleFunc("GET /buyer/omise/{secret}/qr.svg", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "image/svg+xml")
		_, _ = w.Write([]byte(qrImage))
	})
	mux.HandleFunc("POST /buyer/omise/{secret}/{verdict}", s.judgeBuyer)
	return mux
}

func say(w http.ResponseWriter, status int, sentence string) {
	parts.Show(w, buyerPage, status, map[string]any{"Sentence": sentence})
}

const pageGone = "This payment no longer waits for you: it was paid, refused or ended before."

// buyerOf finds the charge of a page that is still open. It expects the lock to be held.
func (s *Sim) buyerOf(secret string) (*charge, *request) {
	c := s.byBuyer[secret]
	if c == nil {
		return nil, nil
	}
	r := &request{account: s.accounts[c.account], now: s.cfg.Now()}
	if s.lapse(r, c); c.status != pending {
		return nil, r
	}
	return c, r
}

func (s *Sim) showBuyer(w http.ResponseWriter, hr *http.Request) {
	s.mu.Lock()
	c, r := s.buyerOf(hr.PathValue("secret"))
	var data map[string]any
	if c != nil {
		data = map[string]any{
			"Open": true, "Secret": c.buyerSecret, "Amount": c.amount, "Currency": c.currency,
			"Kind": strings.ReplaceAll(c.behavior.kind, "_", " "),
		}
	}
	s.mu.Unlock()
	s.publishOf(r)
	if data == nil {
		say(w, http.StatusGone, pageGone)
		return
	}
	parts.Show(w, buyerPage, http.StatusOK, data)
}

func (s *Sim) publishOf(r *request) {
	if r != nil {
		s.publish(r.account)
	}
}

func (s *Sim) judgeBuyer(w http.ResponseWriter, hr *http.Request) {
	verdict := hr.PathValue("verdict")
	if verdict != "pass" && verdict != "fail" {
		say(w, http.StatusNotFound, "There is no such button.")
		return
	}
	s.mu.Lock()
	c, r := s.buyerOf(hr.PathValue("secret"))
	back := ""
	if c != nil {
		s.decide(r, c, verdict == "pass")
		back = c.returnURI
	}
	s.mu.Unlock()
	s.publishOf(r)
	switch {
	case c == nil:
		say(w, http.StatusGone, pageGone)
	case back == "":
		say(w, http.StatusOK, "Thank you. You can close this page.")
	default: // Omise tells the return page nothing about what became of the charge
		w.Header().Set("Referrer-Policy", "no-referrer")
		http.Redirect(w, hr, back, http.StatusSeeOther)
	}
}

func (s *Sim) decide(r *request, c *charge, pass bool) {
	if pass {
		s.pay(r, c)
		return
	}
	s.fail(r, c, "payment_rejected")
}

// Decide lets a test act as the buyer of a charge without a browser. It reports whether the charge was waiting.
func (s *Sim) Decide(chargeID string, pass bool) bool {
	s.mu.Lock()
	var c *charge
	var r *request
	for _, a := range s.accounts {
		if found := a.charges[chargeID]; found != nil {
			c, r = s.buyerOf(found.buyerSecret)
		}
	}
	if c != nil {
		s.decide(r, c, pass)
	}
	s.mu.Unlock()
	s.publishOf(r)
	return c != nil
}
