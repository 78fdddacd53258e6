// Package testkit gives tests the real things: a migrated PostgreSQL database of their own, a Temporal dev server, and a
// proxy that loses exactly one answer.
//
// It must not know business rules or fake anything that can run for real. It may import localstack, migrations, pgx, the
// Temporal SDK and testify; only tests import it.
package testkit
