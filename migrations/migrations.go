// Package migrations holds the schema as SQL files and applies it.
//
// It must not know Go data changes or business rules: what a migration does is in its SQL. It may import goose and pgx.
package migrations

import (
	"context"
	"database/sql"
	"embed"
	"fmt"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // goose speaks database/sql
	"github.com/pressly/goose/v3"
)

// FS holds the SQL files, for tools and for tests that hash them.
//
//go:embed *.sql
var FS embed.FS

// logTables may only be appended to by the application.
var logTables = []string{"observations", "transitions", "review_decisions", "audit_log"}

// Up brings the database of ownerURL to the current schema and gives appRole exactly the rights the application needs: no
// DDL, no UPDATE or DELETE on log tables, no DELETE on rows that guard. An empty appRole grants nothing (the owner is used
// for everything, as on a laptop). Running it again changes nothing.
func Up(ctx context.Context, ownerURL, appRole string) error {
	db, err := sql.Open("pgx", ownerURL)
	if err != nil {
		return fmt.Errorf("open database for migration: %w", err)
	}
	defer func() { _ = db.Close() }()
	p, err := goose.NewProvider(goose.DialectPostgres, db, FS)
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("apply migrations: %w", err)
	}
	if appRole == "" {
		return nil
	}
	return grant(ctx, db, appRole)
}

func grant(ctx context.Context, db *sql.DB, role string) error {
	r := pgx.Identifier{role}.Sanitize()
	stmts := []string{
		"GRANT USAGE ON SCHEMA public TO " + r,
		"GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA public TO " + r,
		"GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO " + r,
		// Only what retention prunes may be deleted, and each of it has a permanent row behind it (rule 10).
		"GRANT DELETE ON idempotency_keys, webhook_receipts, looks_wanted, event_deliveries, rate_buckets, operator_sessions TO " + r,
		"REVOKE ALL ON goose_db_version FROM " + r,
	}
	for _, t := range logTables {
		stmts = append(stmts, "REVOKE UPDATE, DELETE, TRUNCATE ON "+t+" FROM "+r)
	}
	// A record is appended, and gets its number once.
	stmts = append(stmts, "REVOKE UPDATE, DELETE, TRUNCATE ON transaction_records FROM "+r, "GRANT UPDATE (number) ON transaction_records TO "+r)
	for _, s := range stmts {
		if _, err := db.ExecContext(ctx, s); err != nil {
			return fmt.Errorf("grant rights to %s: %w", r, err)
		}
	}
	return nil
}
