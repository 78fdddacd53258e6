package testkit

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"orderflow/internal/localstack"
	"orderflow/migrations"
)

// DatabaseEnv names the variable that holds the URL of a superuser or owner on a server for tests. `dev env` sets it.
// Tests create and drop databases there and set the password of AppRole, so it must not be a server anybody depends on.
const DatabaseEnv = "ORDERFLOW_TEST_DATABASE_URL"

// AppRole is the role the application uses: no DDL, no change to log tables.
const AppRole = "orderflow_app"

// DB is one test's own database, migrated and empty.
type DB struct {
	Name     string
	OwnerURL string // may do everything in it
	AppURL   string // what worker and starter would use
}

// Database makes a database for one test from the migrated template and drops it when the test ends. Tests may run in
// parallel, in one process and in several.
func Database(t testing.TB) *DB {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	c := sharedCluster(t)
	d, err := c.create(ctx)
	if err != nil {
		t.Fatalf("a test database cannot be made: %v", err)
	}
	t.Cleanup(func() {
		if err := c.drop(ctx, d.Name); err != nil {
			t.Errorf("the test database stays behind: %v", err)
		}
	})
	return d
}

// cluster is the server the tests of this process share, with the name of its migrated template.
type cluster struct {
	admin       string
	appPassword string
	template    string
}

// sharedCluster prepares the server once per process. Without the variable it starts one that lives as long as this
// process: correct, and slower than one for all packages.
var sharedCluster = func() func(testing.TB) *cluster {
	prepare := sync.OnceValues(func() (*cluster, error) {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		admin := os.Getenv(DatabaseEnv)
		if admin == "" {
			p, err := localstack.StartPostgres(ctx, localstack.PostgresOptions{}, nil)
			if err != nil {
				return nil, fmt.Errorf("run the tests with make test, or with go run ./dev env -- COMMAND (starting one here failed: %w)", err)
			}
			admin = p.URL // it ends with this process; its folder is cleared away by the next start
		}
		return prepareCluster(ctx, admin)
	})
	return func(t testing.TB) *cluster {
		t.Helper()
		c, err := prepare()
		if err != nil {
			t.Fatalf("no PostgreSQL for tests (%s): %v", DatabaseEnv, err)
		}
		return c
	}
}()

// prepareCluster makes role and template if another process has not. The template's name holds a hash of the migrations,
// so that a changed migration never meets yesterday's schema.
func prepareCluster(ctx context.Context, admin string) (*cluster, error) {
	hash, err := migrationsHash()
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(admin)
	if err != nil {
		return nil, errors.New("the URL cannot be parsed")
	}
	// Every process has to know the role's password without being told: it is as secret as the owner's.
	owner, _ := u.User.Password()
	password := sha256.Sum256([]byte("orderflow test role\x00" + owner))
	c := &cluster{admin: admin, appPassword: hex.EncodeToString(password[:16]), template: "orderflow_template_" + hash}
	conn, err := pgx.Connect(ctx, admin)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(ctx) }()
	// One builder at a time in the whole cluster; the lock goes with the connection.
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock(hashtext('orderflow test template'))"); err != nil {
		return nil, err
	}
	if err := c.makeRole(ctx, conn); err != nil {
		return nil, err
	}
	var there bool
	if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", c.template).Scan(&there); err != nil || there {
		return c, err
	}
	return c, c.buildTemplate(ctx, conn)
}

func (c *cluster) makeRole(ctx context.Context, conn *pgx.Conn) error {
	role := pgx.Identifier{AppRole}.Sanitize()
	_, err := conn.Exec(ctx, "CREATE ROLE "+role+" LOGIN")
	var pg *pgconn.PgError
	if err != nil && (!errors.As(err, &pg) || pg.Code != "42710") { // duplicate_object
		return err
	}
	_, err = conn.Exec(ctx, "ALTER ROLE "+role+" LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE PASSWORD '"+c.appPassword+"'")
	return err
}

// buildTemplate migrates under another name and renames at the end: a template with the right name is a whole one.
func (c *cluster) buildTemplate(ctx context.Context, conn *pgx.Conn) error {
	building := c.template + "_building"
	name := pgx.Identifier{building}.Sanitize()
	if _, err := conn.Exec(ctx, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)"); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		return err
	}
	address, err := c.url(building, nil)
	if err != nil {
		return err
	}
	if err := migrations.Up(ctx, address, AppRole); err != nil {
		return err
	}
	// A template nobody can connect to is never "being accessed by other users" when it is copied.
	if _, err := conn.Exec(ctx, "ALTER DATABASE "+name+" ALLOW_CONNECTIONS false"); err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "ALTER DATABASE "+name+" RENAME TO "+pgx.Identifier{c.template}.Sanitize())
	return err
}

// url is the server's address with another database and, where given, another user.
func (c *cluster) url(database string, user *url.Userinfo) (string, error) {
	u, err := url.Parse(c.admin)
	if err != nil {
		return "", errors.New("the URL cannot be parsed")
	}
	u.Path = "/" + database
	if user != nil {
		u.User = user
	}
	return u.String(), nil
}

func (c *cluster) create(ctx context.Context) (*DB, error) {
	random := make([]byte, 8)
	_, _ = rand.Read(random)
	d := &DB{Name: "orderflow_test_" + hex.EncodeToString(random)}
	err := c.exec(ctx, "CREATE DATABASE "+pgx.Identifier{d.Name}.Sanitize()+" TEMPLATE "+pgx.Identifier{c.template}.Sanitize())
	if err != nil {
		return nil, err
	}
	if d.OwnerURL, err = c.url(d.Name, nil); err != nil {
		return nil, err
	}
	d.AppURL, err = c.url(d.Name, url.UserPassword(AppRole, c.appPassword))
	return d, err
}

// drop ends what is still connected: a test that kills its worker leaves connections.
func (c *cluster) drop(ctx context.Context, name string) error {
	return c.exec(ctx, "DROP DATABASE IF EXISTS "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)")
}

func (c *cluster) exec(ctx context.Context, sql string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, c.admin)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, sql)
	return errors.Join(err, conn.Close(ctx))
}

// migrationsHash covers names and contents of the SQL files, and the Go file's grants by way of their effect being made
// anew with every cluster of `dev env`.
func migrationsHash() (string, error) {
	sum := sha256.New()
	err := fs.WalkDir(migrations.FS, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".sql") {
			return err
		}
		text, err := fs.ReadFile(migrations.FS, path)
		fmt.Fprintf(sum, "%s %d\n%s\n", path, len(text), text)
		return err
	})
	return hex.EncodeToString(sum.Sum(nil))[:12], err
}
