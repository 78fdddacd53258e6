package store

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"orderflow/internal/fault"
)

// translate turns driver errors into faults, by constraint name where one fired, so that a caller can tell which rule it was.
// A lost answer to COMMIT looks like any lost connection: both are database_unavailable, and the caller reads again.
func translate(op string, err error) error {
	var f *fault.Error
	var pg *pgconn.PgError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &f):
		return err
	case errors.Is(err, pgx.ErrNoRows):
		return fault.Wrap(fault.NotFound, op, err)
	case errors.As(err, &pg):
		return translatePg(op, pg)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fault.Wrap(fault.DatabaseUnavailable, op, err)
	}
	return fault.Wrap(fault.DatabaseUnavailable, op, err)
}

func translatePg(op string, pg *pgconn.PgError) error {
	code := fault.InternalError
	switch {
	case pg.Code == "40001", pg.Code == "40P01", pg.Code == "55P03": // serialization, deadlock, lock timeout
		code = fault.DatabaseContention
	case len(pg.Code) == 5 && pg.Code[:2] == "23": // integrity
		code = fault.ConstraintViolated
	case len(pg.Code) == 5 && (pg.Code[:2] == "08" || pg.Code[:2] == "57" || pg.Code[:2] == "53" || pg.Code == "25P03"):
		code = fault.DatabaseUnavailable // connection, shutdown or timeout, resources
	}
	e := fault.Wrap(code, op, pg)
	e.Why = pg.ConstraintName
	if e.Why == "" {
		e.Why = "sqlstate_" + pg.Code
	}
	return e
}

// violates reports that err is the named constraint firing.
func violates(err error, constraint string) bool {
	var f *fault.Error
	if errors.As(err, &f) {
		return f.Code == fault.ConstraintViolated && f.Why == constraint
	}
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.ConstraintName == constraint
}

func isNoRows(err error) bool { return errors.Is(err, pgx.ErrNoRows) }
