package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"orderflow/internal/config"
	"orderflow/migrations"
	"orderflow/order"
	"orderflow/starter/engine"
	"orderflow/store"
)

type setupCommand struct {
	SkipTemporal bool          `help:"Only the database."`
	Wait         time.Duration `help:"How long to wait for Temporal to answer." default:"30s"`
}

// Run brings database and Temporal to what worker and starter need.
func (s2 setupCommand) Run(ctx context.Context, s *streams) error {
	c, log, err := s.load()
	if err != nil {
		return err
	}
	if err := migrations.Up(ctx, c.MigrateURL().Reveal(), c.AppRole()); err != nil {
		return err
	}
	say(s, "the database is at the current schema")
	if err := bootstrapKey(ctx, c, s); err != nil {
		return err
	}
	if s2.SkipTemporal {
		return nil
	}
	en, closeClient, err := openEngine(c, log)
	if err != nil {
		return err
	}
	defer closeClient()
	ctx, cancel := context.WithTimeout(ctx, s2.Wait+20*time.Second)
	defer cancel()
	if err := waitReady(ctx, en, s2.Wait); err != nil {
		return err
	}
	if err := en.Ensure(ctx, engine.Settings{SweepPeriod: c.SweepPeriod, RelayPeriod: c.RelayPeriod, ReconcilePeriod: c.ReconcilePeriod}); err != nil {
		return err
	}
	say(s, "search attributes and schedules are in place")
	return nil
}

func waitReady(ctx context.Context, en *engine.Engine, wait time.Duration) error {
	until := time.After(wait)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		if en.Ready(ctx) == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-until:
			return errors.New("no answer from Temporal: check TEMPORAL_ADDRESS, or pass --skip-temporal")
		case <-tick.C:
		}
	}
}

// bootstrapKey stores the first API key, so that a fresh installation can be used without a tool for keys.
func bootstrapKey(ctx context.Context, c config.Config, s *streams) error {
	clientName, scopes, key, err := c.Bootstrap()
	if err != nil || clientName == "" {
		return err
	}
	st, err := store.Open(ctx, c.DatabaseURL.Reveal(), 2, store.Options{})
	if err != nil {
		return err
	}
	defer st.Close()
	caller, hash := hashedKey(key.Reveal(), store.Caller{Client: order.ClientID(clientName), Scopes: scopes})
	if err := st.APIKeyAdd(ctx, caller, hash); err != nil {
		return err
	}
	say(s, "the bootstrap API key of client "+clientName+" is stored, as its hash")
	return nil
}

func say(s *streams, line string) { _, _ = fmt.Fprintln(s.err, line) }
