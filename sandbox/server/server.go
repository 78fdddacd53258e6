// Package server puts the simulated outside world on one address: Stripe, the issuers, the event receiver, the buyer's
// bank page, and an admin API for faults and books.
//
// It must not know Orderflow. It may import the sandbox packages, internal/secret and the standard library.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"orderflow/internal/secret"
	"orderflow/sandbox/faults"
	"orderflow/sandbox/issuersim"
	"orderflow/sandbox/receiver"
	"orderflow/sandbox/stripesim"
)

// Config is what a sandbox is made of.
type Config struct {
	StripeKeys    []secret.Value // sk_test_… or sk_live_…; each is a merchant account of its own
	IssuerToken   secret.Value   // the bearer token of every issuer
	WebhookSecret secret.Value   // whsec_…, shared with whoever sends events to /receiver
	PublicURL     string         // base of the buyer's page; empty = the address a request came to
	Logger        *slog.Logger   // nil = silent
}

// Server is one sandbox.
type Server struct {
	log      *slog.Logger
	faults   *faults.Injector
	stripe   *stripesim.Sim
	issuers  *issuersim.Sim
	receiver *receiver.Receiver
	handler  http.Handler

	mu       sync.Mutex
	listener net.Listener
	http     *http.Server
	served   chan struct{} // closed when serving has ended
	failed   chan error    // carries the error of a server that ended by itself
}

// New makes a sandbox with empty books. Nothing listens yet: use Handler or Start.
func New(cfg Config) (*Server, error) {
	s := &Server{log: cfg.Logger, faults: faults.New(), failed: make(chan error, 1)}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	var err error
	s.stripe, err = stripesim.New(stripesim.Config{
		Keys: cfg.StripeKeys, Faults: s.faults, Logger: s.log, PublicURL: func() string { return cfg.PublicURL },
	})
	if err != nil {
		return nil, err
	}
	s.issuers, err = issuersim.New(issuersim.Config{Token: cfg.IssuerToken, Faults: s.faults, Logger: s.log})
	if err != nil {
		return nil, err
	}
	s.receiver, err = receiver.New(receiver.Config{Secret: cfg.WebhookSecret, Faults: s.faults, Logger: s.log})
	if err != nil {
		return nil, err
	}
	s.handler = s.routes()
	return s, nil
}

// Faults is the injector of all three parties.
func (s *Server) Faults() *faults.Injector { return s.faults }

// Stripe is the simulated Stripe, with its books.
func (s *Server) Stripe() *stripesim.Sim { return s.stripe }

// Issuers are the three simulated issuers, with their books.
func (s *Server) Issuers() *issuersim.Sim { return s.issuers }

// Receiver is the simulated event receiver, with its books.
func (s *Server) Receiver() *receiver.Receiver { return s.receiver }

// Reset forgets every object, book entry, fault and setting.
func (s *Server) Reset() {
	s.faults.Clear()
	s.stripe.Reset()
	s.issuers.Reset()
	s.receiver.Reset()
}

// Handler serves everything; for httptest and for embedding.
func (s *Server) Handler() http.Handler { return s.handler }

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/stripe/v1/", http.StripPrefix("/stripe", s.stripe))
	mux.Handle("/issuers/", s.issuers.Handler())
	mux.Handle("/receiver", s.receiver)
	mux.Handle("/receiver/", s.receiver)
	mux.Handle("/buyer/", s.stripe.Buyer())
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		faults.JSON(http.StatusOK, map[string]string{"status": "ok"}).Write(w)
	})
	admin := http.NewServeMux()
	s.adminRoutes(admin)
	// A web page open in a developer's browser must not be able to arm faults or empty the books.
	mux.Handle("/admin/", http.NewCrossOriginProtection().Handler(admin))
	return mux
}

// Start listens on addr ("127.0.0.1:0" picks a free port) and serves in the background until Close.
func (s *Server) Start(addr string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.http != nil {
		return errors.New("the sandbox is started already")
	}
	l, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("the address %s is taken by another program, maybe another sandbox: stop it or choose another address", addr)
	}
	if err != nil {
		return fmt.Errorf("the sandbox cannot listen on %s: %w", addr, err)
	}
	s.listener = l
	s.http = &http.Server{
		Handler: s.handler, ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
	s.served = make(chan struct{})
	go func(h *http.Server, served chan struct{}) {
		defer close(served)
		if err := h.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.failed <- err
		}
	}(s.http, s.served)
	return nil
}

// Failed carries an error when serving ended by itself.
func (s *Server) Failed() <-chan error { return s.failed }

// Addr is the address it listens on, "" before Start.
func (s *Server) Addr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener == nil {
		return ""
	}
	return s.listener.Addr().String()
}

// URL is "http://" and Addr.
func (s *Server) URL() string { return "http://" + s.Addr() }

// StripeURL is the API base to give to a Stripe client.
func (s *Server) StripeURL() string { return s.URL() + "/stripe" }

// IssuerURL is the base to give to a client of one issuer.
func (s *Server) IssuerURL(kind issuersim.Kind) string { return s.URL() + "/issuers/" + string(kind) }

// ReceiverURL is where events go.
func (s *Server) ReceiverURL() string { return s.URL() + "/receiver" }

// Close lets go of held requests, waits a moment for running ones and stops. It is safe to call twice.
func (s *Server) Close() error {
	s.faults.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.http == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := s.http.Shutdown(ctx); err != nil {
		_ = s.http.Close()
	}
	<-s.served
	s.http, s.listener = nil, nil
	return nil
}
