package notify

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"orderflow/sandbox/faults"
)

// Filter narrows the log; empty fields match everything.
type Filter struct {
	Gateway, Account, Kind string
	Outcome                Outcome
	Message                int64
}

func (f Filter) matches(d Delivery) bool {
	return (f.Gateway == "" || f.Gateway == d.Gateway) && (f.Account == "" || f.Account == d.Account) &&
		(f.Kind == "" || f.Kind == d.Kind) && (f.Outcome == "" || f.Outcome == d.Outcome) &&
		(f.Message == 0 || f.Message == d.Message)
}

// Log returns what happened, oldest first.
func (s *Sender) Log(f Filter) []Delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []Delivery{}
	for _, d := range s.log {
		if f.matches(d) {
			out = append(out, d)
		}
	}
	return out
}

// settingsJSON is the run-time part of the configuration.
type settingsJSON struct {
	Scale    *float64                `json:"scale,omitempty"`
	Targets  map[string]string       `json:"targets,omitempty"`
	Profiles map[string]*profileJSON `json:"profiles,omitempty"`
}

type profileJSON struct {
	Resends []string `json:"resends"`
	Only200 bool     `json:"only_200"`
	Timeout string   `json:"timeout,omitempty"`
}

// Handler is the admin API: /admin/notices (the log), /admin/notices/settings, /admin/notices/rules and below.
func (s *Sender) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /admin/notices", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		n, _ := strconv.ParseInt(q.Get("message"), 10, 64)
		f := Filter{Gateway: q.Get("gateway"), Account: q.Get("account"), Kind: q.Get("kind"), Outcome: Outcome(q.Get("outcome")), Message: n}
		faults.JSON(http.StatusOK, map[string]any{"deliveries": s.Log(f)}).Write(w)
	})
	mux.HandleFunc("POST /admin/notices/{message}/resend", s.postResend)
	mux.HandleFunc("GET /admin/notices/settings", func(w http.ResponseWriter, _ *http.Request) { s.settings().Write(w) })
	mux.HandleFunc("POST /admin/notices/settings", s.postSettings)
	mux.HandleFunc("GET /admin/notices/rules", func(w http.ResponseWriter, _ *http.Request) {
		faults.JSON(http.StatusOK, map[string]any{"rules": s.Rules()}).Write(w)
	})
	mux.HandleFunc("POST /admin/notices/rules", s.postRule)
	mux.HandleFunc("DELETE /admin/notices/rules", func(w http.ResponseWriter, _ *http.Request) {
		s.ClearRules()
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /admin/notices/rules/{id}", func(w http.ResponseWriter, r *http.Request) {
		state, ok := s.Rule(r.PathValue("id"))
		if !ok {
			noRule(w)
			return
		}
		faults.JSON(http.StatusOK, state).Write(w)
	})
	mux.HandleFunc("DELETE /admin/notices/rules/{id}", func(w http.ResponseWriter, r *http.Request) {
		if !s.RemoveRule(r.PathValue("id")) {
			noRule(w)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("POST /admin/notices/rules/{id}/release", func(w http.ResponseWriter, r *http.Request) {
		n, ok := s.Release(r.PathValue("id"))
		if !ok {
			noRule(w)
			return
		}
		faults.JSON(http.StatusOK, map[string]int{"released": n}).Write(w)
	})
	return mux
}

func (s *Sender) postRule(w http.ResponseWriter, r *http.Request) {
	var rule Rule
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&rule); err != nil {
		refuse(w, http.StatusBadRequest, "the body must be one rule as JSON: "+err.Error())
		return
	}
	id, err := s.AddRule(rule)
	if err != nil {
		refuse(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	state, _ := s.Rule(id)
	faults.JSON(http.StatusCreated, state).Write(w)
}

func (s *Sender) postResend(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.ParseInt(r.PathValue("message"), 10, 64)
	if err == nil {
		err = s.Resend(n)
	}
	if err != nil {
		refuse(w, http.StatusNotFound, "there is no such message, or it is no longer kept; GET /admin/notices lists them")
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

func (s *Sender) postSettings(w http.ResponseWriter, r *http.Request) {
	var body settingsJSON
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20))
	d.DisallowUnknownFields()
	if err := d.Decode(&body); err != nil {
		refuse(w, http.StatusBadRequest, `the body must be JSON such as {"scale":0.001,"targets":{"toss":"http://127.0.0.1:8080/webhooks/toss"}}`)
		return
	}
	if err := s.apply(body); err != nil {
		refuse(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	s.settings().Write(w)
}

func (s *Sender) apply(body settingsJSON) error {
	if body.Scale != nil {
		if err := s.SetScale(*body.Scale); err != nil {
			return err
		}
	}
	for key, to := range body.Targets {
		if err := s.SetTarget(key, to); err != nil {
			return err
		}
	}
	for gateway, p := range body.Profiles {
		if p == nil {
			continue
		}
		profile := Profile{Only200: p.Only200}
		var err error
		if profile.Timeout, err = durationOf("timeout", p.Timeout); err != nil {
			return err
		}
		for _, text := range p.Resends {
			wait, err := durationOf("a resend", text)
			if err != nil {
				return err
			}
			profile.Resends = append(profile.Resends, wait)
		}
		if err := s.SetProfile(gateway, profile); err != nil {
			return err
		}
	}
	return nil
}

func (s *Sender) settings() faults.Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := settingsJSON{Scale: &s.scale, Targets: s.targets, Profiles: map[string]*profileJSON{}}
	for gateway, p := range s.profiles {
		view := &profileJSON{Resends: []string{}, Only200: p.Only200, Timeout: p.Timeout.String()}
		for _, wait := range p.Resends {
			view.Resends = append(view.Resends, wait.Round(time.Millisecond).String())
		}
		out.Profiles[gateway] = view
	}
	return faults.JSON(http.StatusOK, out)
}

func noRule(w http.ResponseWriter) {
	refuse(w, http.StatusNotFound, "there is no rule with this id; GET /admin/notices/rules lists them")
}

func refuse(w http.ResponseWriter, status int, sentence string) {
	faults.JSON(status, map[string]string{"error": sentence}).Write(w)
}
