package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// ExportField is one field of an exported row. Its name is the column's, except where a computed field says otherwise.
type ExportField struct {
	Name  string
	Type  string // "text", "number", "boolean", "time", "list" or "object"; see docs/export.md
	Means string
	sql   string // where it is not the column itself
}

// ExportKind is one kind of exported row: a table, or the part of it that may leave the house.
type ExportKind struct {
	Kind     string
	Table    string
	Means    string
	Order    string // the columns that rows are sorted by
	Fields   []ExportField
	Withheld []string // columns that are not exported: sealed bytes, tokens, buyers' texts, callers' keys and bookkeeping
}

// ExportHead says what an export is a picture of.
type ExportHead struct {
	Version int       `json:"version"` // of docs/export.md
	TakenAt time.Time `json:"taken_at"`
}

// exportVersion rises when a reader of docs/export.md has to change.
const exportVersion = 1

// Export calls emit for every row of every kind, as they all stood at one moment; the row is JSON and valid during the call only. It
// holds one row at a time. The snapshot is read-only and blocks nobody, but while it lasts the database keeps what others delete.
func (s *Store) Export(ctx context.Context, head func(ExportHead) error, emit func(kind string, row []byte) error) error {
	const op = "export"
	tx, err := s.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return translate(op, err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // nothing to keep
	h := ExportHead{Version: exportVersion}
	var set [3]string
	// Whoever reads the export may be slow; that must not end it in the middle. Times are told in one zone.
	if err := tx.QueryRow(ctx, `SELECT now(), set_config('statement_timeout', '0', true), set_config('idle_in_transaction_session_timeout', '0', true),
		set_config('TimeZone', 'UTC', true)`).Scan(&h.TakenAt, &set[0], &set[1], &set[2]); err != nil {
		return translate(op, err)
	}
	h.TakenAt = h.TakenAt.UTC()
	if err := head(h); err != nil {
		return err
	}
	for _, k := range ExportKinds() {
		if err := exportKind(ctx, tx, k, emit); err != nil {
			return err
		}
	}
	return nil
}

func exportKind(ctx context.Context, tx pgx.Tx, k ExportKind, emit func(string, []byte) error) error {
	rows, err := tx.Query(ctx, k.query())
	if err != nil {
		return translate("export", err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := emit(k.Kind, rows.RawValues()[0]); err != nil {
			return err
		}
	}
	return translate("export", rows.Err())
}

// query is put together here and not generated: generated queries collect all rows, and an export must not. Nothing in it comes from
// outside.
func (k ExportKind) query() string {
	cols := make([]string, len(k.Fields))
	for i, f := range k.Fields {
		cols[i] = f.Name
		if f.sql != "" {
			cols[i] = f.sql + " AS " + f.Name
		}
	}
	return fmt.Sprintf("SELECT row_to_json(x)::text FROM (SELECT %s FROM %s t ORDER BY %s) x", strings.Join(cols, ", "), k.Table, k.Order)
}
