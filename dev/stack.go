package main

import (
	"context"
	"errors"
	"fmt"

	"orderflow/internal/localstack"
)

// stack starts parts in order and stops them in reverse, whether all of them came up or one of them did not.
type stack struct {
	say   localstack.Progress
	parts []part
}

// part is one thing that runs; stop is called once.
type part struct {
	name string
	stop func() error
}

// up starts one part. An error of start is the person's to read, so it says which part it was.
func (s *stack) up(ctx context.Context, name string, start func(context.Context) (stop func() error, err error)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	stop, err := start(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	s.parts = append(s.parts, part{name, stop})
	return nil
}

// down stops everything that came up, last first, and goes on when one of them will not stop.
func (s *stack) down() error {
	var errs []error
	for len(s.parts) > 0 {
		last := s.parts[len(s.parts)-1]
		s.parts = s.parts[:len(s.parts)-1]
		if err := last.stop(); err != nil {
			errs = append(errs, fmt.Errorf("stopping %s: %w", last.name, err))
		}
	}
	return errors.Join(errs...)
}
