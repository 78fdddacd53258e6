package orderflow_test

import (
	"bufio"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Goal: the layers hold on a machine that has Go and nothing else. Method: parse every file of ours and compare its imports,
// size and words with the tables below. Not covered: test files may import what they like; what a package reaches
// through an allowed one is that one's business.

const module = "orderflow/"

// layer is what a folder, with the folders below it, must not import; except names folders below it with rules of their own.
type layer struct {
	folder    string
	forbidden []string // import paths, each with everything below it; "ours" is this module, less allowed
	allowed   []string // of ours, where "ours" is forbidden
	except    []string
	instead   string
}

// outside is what does I/O or ties to an engine.
func outside(more ...string) []string {
	return append([]string{"net/http", "database/sql", "github.com/jackc/pgx", "go.temporal.io"}, more...)
}

func layers() []layer {
	gateway := func(name string) layer {
		l := layer{
			folder:    "gateways/" + name,
			forbidden: []string{"go.temporal.io", "github.com/jackc/pgx", "database/sql", module + "store", module + "activities", module + "workflows", module + "order", module + "starter"},
			instead:   "a gateway speaks for one provider and knows gateways, fault, money and secret; activities translate to the domain",
		}
		for _, other := range []string{"stripe", "omise", "twoctwop", "toss"} {
			if other != name {
				l.forbidden = append(l.forbidden, module+"gateways/"+other)
			}
		}
		return l
	}
	return []layer{
		{folder: "order", forbidden: outside("net", "os", "log/slog", "ours"), allowed: []string{"internal/money", "internal/fault", "internal/cleantext"}, instead: "the domain is pure: pass facts, times and ids in"},
		{folder: "workflows", forbidden: []string{
			"net", "os", "database/sql", "github.com/jackc/pgx", "go.temporal.io/sdk/client", "math/rand", "crypto/rand",
			module + "store", module + "gateways", module + "issuers", module + "starter", module + "internal/config",
		}, instead: "reach the outside through an activity, whose package aliases the types it returns, and configuration through the policy snapshot"},
		{folder: "activities", forbidden: []string{module + "workflows", module + "starter", "github.com/jackc/pgx"}, instead: "shared names are in order, SQL is in store"},
		{folder: "store", forbidden: []string{"net/http", "go.temporal.io", module + "gateways", module + "issuers", module + "activities", module + "workflows", module + "starter"}, instead: "one function is one transaction; no provider is called inside it"},
		{folder: "migrations", forbidden: []string{"net/http", "go.temporal.io", "ours"}, instead: "a migration is SQL"},
		{folder: "starter", forbidden: []string{module + "workflows"}, instead: "shared names (queue, ids, doors, payloads) are in order"},
		{folder: "gateways", forbidden: outside("ours"), allowed: []string{"internal/money", "internal/fault", "internal/secret"}, except: []string{"stripe", "omise", "twoctwop", "toss", "all", "gatewaytest", "shared"}, instead: "the interfaces name no provider and do no I/O"},
		{folder: "gateways/all", forbidden: outside("ours"), allowed: []string{"gateways"}, instead: "this is the one list, without logic"},
		{folder: "gateways/shared", forbidden: []string{"go.temporal.io", "github.com/jackc/pgx", "database/sql", "ours"}, instead: "what every gateway needs knows none of them"},
		{folder: "gateways/gatewaytest", forbidden: []string{module + "store", module + "order", module + "activities", module + "gateways/stripe", module + "gateways/omise", module + "gateways/twoctwop", module + "gateways/toss"}, instead: "the suite is the same for every provider"},
		gateway("stripe"), gateway("omise"), gateway("twoctwop"), gateway("toss"),
		{folder: "issuers", forbidden: []string{"go.temporal.io", "github.com/jackc/pgx", module + "store", module + "order", module + "activities", module + "workflows", module + "starter", module + "gateways"}, instead: "an issuer knows fault, secret and its own contract"},
		{folder: "sandbox", forbidden: []string{"go.temporal.io", "github.com/jackc/pgx", "ours"}, allowed: []string{"internal/secret", "sandbox"}, instead: "the simulated outside must not believe what we believe"},
		{folder: "internal/money", forbidden: outside("ours"), instead: "a leaf"},
		{folder: "internal/fault", forbidden: outside("ours"), instead: "a leaf"},
		{folder: "internal/secret", forbidden: outside("ours"), instead: "a leaf"},
		{folder: "internal/reconcile", forbidden: outside("net", "os", "ours"), allowed: []string{"internal/money", "internal/fault", "order"}, instead: "matching is pure"},
		{folder: "internal/localstack", forbidden: []string{"ours"}, instead: "it starts programs and knows nothing of ours"},
	}
}

// source is one parsed file of ours.
type source struct {
	path      string // slashes, from the module's top
	folder    string
	test      bool
	generated bool
	lines     int
	file      *ast.File
}

func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	set := token.NewFileSet()
	require.NoError(t, filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != "." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata" || path == filepath.Join("internal", "tools")) {
			return filepath.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(path, ".go") {
			return nil
		}
		f, err := parser.ParseFile(set, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		slashed := filepath.ToSlash(path)
		all = append(all, source{
			path: slashed, folder: filepath.ToSlash(filepath.Dir(path)), test: strings.HasSuffix(path, "_test.go"),
			generated: ast.IsGenerated(f), lines: set.Position(f.FileEnd).Line, file: f,
		})
		return nil
	}))
	require.NotEmpty(t, all)
	return all
}

func below(path, folder string) bool { return path == folder || strings.HasPrefix(path, folder+"/") }

// breaks is the rule an import breaks, if any.
func (l layer) breaks(folder, imported string) bool {
	if !below(folder, l.folder) || slices.ContainsFunc(l.except, func(e string) bool { return below(folder, l.folder+"/"+e) }) {
		return false
	}
	for _, f := range l.forbidden {
		if f != "ours" {
			if below(imported, f) && imported != "net/url" && imported != "net/netip" {
				return true
			}
			continue
		}
		name, ours := strings.CutPrefix(imported, module)
		if ours && !slices.ContainsFunc(l.allowed, func(a string) bool { return below(name, a) }) && !below(name, l.folder) {
			return true
		}
	}
	return false
}

func TestImportsPointInward(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		for _, spec := range s.file.Imports {
			imported := strings.Trim(spec.Path.Value, `"`)
			for _, l := range layers() {
				if l.breaks(s.folder, imported) {
					t.Errorf("%s imports %s, which %s must not: %s", s.path, imported, l.folder, l.instead)
				}
			}
		}
	}
}

// The table itself must be able to refuse.
func TestLayerTableRefuses(t *testing.T) {
	t.Parallel()
	refused := func(folder, imported string) bool {
		return slices.ContainsFunc(layers(), func(l layer) bool { return l.breaks(folder, imported) })
	}
	for _, c := range []struct {
		folder, imported string
		refused          bool
	}{
		{"workflows", module + "store", true},
		{"workflows", module + "store/sqlcgen", true},
		{"workflows", module + "gateways/stripe", true},
		{"workflows", "net/http", true},
		{"workflows", "go.temporal.io/sdk/client", true},
		{"workflows", "go.temporal.io/sdk/workflow", false},
		{"workflows", module + "activities", false},
		{"order", "go.temporal.io/sdk/workflow", true},
		{"order", "os", true},
		{"order", module + "internal/money", false},
		{"order", module + "gateways", true},
		{"activities", module + "workflows", true},
		{"starter/api", module + "workflows", true},
		{"starter/api", module + "store", false},
		{"gateways/toss", module + "gateways/stripe", true},
		{"gateways/toss", module + "gateways", false},
		{"gateways/toss", module + "order", true},
		{"gateways", "net/http", true},
		{"gateways", "net/url", false},
		{"gateways/all", module + "gateways/toss", false},
		{"store", "net/http", true},
		{"store", module + "order", false},
		{"sandbox/stripesim", module + "order", true},
		{"sandbox", module + "sandbox/server", false},
		{"sandbox", module + "internal/secret", false},
	} {
		require.Equal(t, c.refused, refused(c.folder, c.imported), "%s importing %s", c.folder, c.imported)
	}
}

func TestEveryPackageSaysWhatItDoesAndMustNotKnow(t *testing.T) {
	t.Parallel()
	docs, shipped := map[string]string{}, map[string]bool{}
	for _, s := range sources(t) {
		if s.folder == "." || s.generated {
			continue // this test only, or what a generator wrote
		}
		if _, ok := docs[s.folder]; !ok {
			docs[s.folder] = ""
		}
		shipped[s.folder] = shipped[s.folder] || !s.test
		if s.file.Doc != nil {
			docs[s.folder] += s.file.Doc.Text()
		}
	}
	for folder, doc := range docs {
		switch {
		case doc == "":
			t.Errorf("%s has no package comment: say what it does, what it must not know, what it may import", folder)
		case shipped[folder] && !strings.Contains(doc, "must not"):
			t.Errorf("the package comment of %s does not say what it must not know", folder)
		}
	}
}

func TestFilesStayReadable(t *testing.T) {
	t.Parallel()
	const most = 500
	for _, s := range sources(t) {
		if !s.generated && s.lines > most {
			t.Errorf("%s has %d lines, more than %d: split it by what it does", s.path, s.lines, most)
		}
	}
}

// moneyFolders handle amounts; a float there is an amount that can be off by one.
func moneyFolders() []string {
	return []string{"order", "internal/money", "gateways", "issuers", "store", "activities", "workflows", "migrations", "starter", "internal/reconcile"}
}

// measures reports a file that hands durations and counts to a metrics library, which wants them as floats, or to a log.
func measures(s source) bool {
	return s.path == "starter/api/observe.go" || slices.ContainsFunc(s.file.Imports, func(i *ast.ImportSpec) bool {
		path := strings.Trim(i.Path.Value, `"`)
		return below(path, "github.com/prometheus") || below(path, "go.opentelemetry.io")
	})
}

func TestMoneyIsNeverAFloat(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if s.test || measures(s) || !slices.ContainsFunc(moneyFolders(), func(f string) bool { return below(s.folder, f) }) {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && (id.Name == "float64" || id.Name == "float32") {
				t.Errorf("%s uses %s: amounts are integers in minor units, shares are fractions of integers", s.path, id.Name)
			}
			return true
		})
	}
}

func TestDomainAndWorkflowsHaveNoClock(t *testing.T) {
	t.Parallel()
	banned := []string{"Now", "Since", "Until", "Sleep", "After", "NewTimer", "NewTicker", "Tick", "AfterFunc"}
	for _, s := range sources(t) {
		if s.test || !below(s.folder, "order") && !below(s.folder, "workflows") {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			pkg, ok := sel.X.(*ast.Ident)
			if !ok || pkg.Obj != nil { // a local variable of that name
				return true
			}
			if pkg.Name == "time" && slices.Contains(banned, sel.Sel.Name) {
				t.Errorf("%s calls time.%s: pass the time in, or take it from the workflow", s.path, sel.Sel.Name)
			}
			return true
		})
	}
}

// An ignored folder must not hide files that belong to the repository.
func TestStateFolderIsIgnored(t *testing.T) {
	t.Parallel()
	f, err := os.Open(".gitignore")
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if lines.Text() == "/.state/" {
			return
		}
	}
	t.Error(".gitignore does not list /.state/")
}
