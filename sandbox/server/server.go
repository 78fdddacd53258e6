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
	log     *slog.Logger
	faults  *faults.Injector
	stripe  *stripesim.Sim
	handler http.Handler

	mu       sync.Mutex
	listener net.Listener
	http     *http.Server
	served   chan error
}

// New makes a sandbox with empty books. Nothing listens yet: use Handler or Start.
func New(cfg Config) (*Server, error) {
	s := &Server{log: cfg.Logger, faults: faults.New()}
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
	s.handler = s.routes()
	return s, nil
}

// Faults is the injector of all three parties.
func (s *Server) Faults() *faults.Injector { return s.faults }

// Stripe is the simulated Stripe, with its books.
func (s *Server) Stripe() *stripesim.Sim { return s.stripe }

// Reset forgets every object, book entry, fault and setting.
func (s *Server) Reset() {
	s.faults.Clear()
	s.stripe.Reset()
}

// Handler serves everything; for httptest and for embedding.
func (s *Server) Handler() http.Handler { return s.handler }

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/stripe/v1/", http.StripPrefix("/stripe", s.stripe))
	mux.Handle("/buyer/", s.stripe.Buyer())
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		faults.JSON(http.StatusOK, map[string]string{"status": "ok"}).Write(w)
	})
	s.adminRoutes(mux)
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
	s.served = make(chan error, 1)
	go func() { s.served <- s.http.Serve(l) }()
	return nil
}

// Addr is the address it listens on, "" before Start.
func (s *Server) Addr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener == nil {
		return ""
	}
	return s.listener.Addr().String()
}

// URL is "http://" and Addr; StripeURL is the API base to give to a Stripe client.
func (s *Server) URL() string { return "http://" + s.Addr() }

// StripeURL is the API base to give to a Stripe client.
func (s *Server) StripeURL() string { return s.URL() + "/stripe" }

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
	err := <-s.served
	s.http, s.listener = nil, nil
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
