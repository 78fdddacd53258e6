package localstack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
)

// HideInstalledEnv makes this package pretend that no PostgreSQL is installed, so that the next way can be tested.
const HideInstalledEnv = "ORDERFLOW_HIDE_INSTALLED_POSTGRES"

// serverBinaries is a folder that holds initdb and postgres.
type serverBinaries struct {
	dir     string
	version string // as the server says it: "18.4"
	major   int
	how     string
}

// findServer goes through the ways of getting server binaries, cheapest first. A cluster made by one major version can
// only be run by the same one; need is that version, or 0 for a new cluster.
func findServer(ctx context.Context, base string, need int, user *serverIdentity, say Progress) (serverBinaries, error) {
	found, unfit := installedServer(ctx, need, user)
	if found.dir != "" {
		return found, nil
	}
	var why []error
	why = append(why, unfit)
	if need == 0 || need == npmPostgresMajor {
		b, err := npmServer(ctx, base, say)
		if err == nil {
			return b, nil
		}
		why = append(why, err)
	}
	if err := aptInstall(ctx, say); err != nil {
		why = append(why, err)
	} else if b, unfit := installedServer(ctx, need, user); b.dir != "" {
		return b, nil
	} else {
		why = append(why, unfit)
	}
	if need != 0 {
		return serverBinaries{}, fmt.Errorf("the kept cluster was made by PostgreSQL %d, which is not here: install it, or remove the cluster's folder below the state folder to begin anew (%w)", need, errors.Join(why...))
	}
	return serverBinaries{}, fmt.Errorf("no PostgreSQL %d or newer was found: install one (Debian: apt-get install postgresql; macOS: brew install postgresql@18), or set DATABASE_URL to a server you have (%w)", oldestPostgres, errors.Join(why...))
}

// installedServer takes the one on PATH, else the newest of the places where packages put it.
func installedServer(ctx context.Context, need int, user *serverIdentity) (serverBinaries, error) {
	if os.Getenv(HideInstalledEnv) != "" && os.Getenv(HideInstalledEnv) != "0" {
		return serverBinaries{}, fmt.Errorf("installed ones are hidden by %s", HideInstalledEnv)
	}
	var all []serverBinaries
	var unfit error = errors.New("none is installed")
	for _, dir := range installedFolders() {
		b, err := inspectServer(ctx, dir)
		switch {
		case err != nil:
		case b.major < oldestPostgres:
			unfit = fmt.Errorf("the one in %s is version %s, and %d is the oldest that will do", dir, b.version, oldestPostgres)
		case need != 0 && b.major != need:
			unfit = fmt.Errorf("the one in %s is version %s", dir, b.version)
		case !user.reaches(b.dir):
			unfit = fmt.Errorf("the user %s cannot reach the one in %s", user.name, dir)
		default:
			all = append(all, b)
		}
	}
	if len(all) == 0 {
		return serverBinaries{}, unfit
	}
	return all[0], nil
}

// installedFolders lists where servers are installed, preferred first.
func installedFolders() []string {
	var dirs []string
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		// The programs may be links into a versioned folder, whose libraries and templates are found from there.
		if real, err := filepath.EvalSymlinks(filepath.Join(dir, "postgres")); err == nil {
			dirs = append(dirs, filepath.Dir(real))
		}
	}
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql@*/bin", "/usr/local/opt/postgresql@*/bin",
		"/home/linuxbrew/.linuxbrew/opt/postgresql@*/bin", "/Applications/Postgres.app/Contents/Versions/*/bin",
	} {
		found, _ := filepath.Glob(pattern)
		slices.SortFunc(found, func(a, b string) int { return versionIn(b) - versionIn(a) })
		dirs = append(dirs, found...)
	}
	return dirs
}

var number = regexp.MustCompile(`\d+`)

func versionIn(path string) int {
	n, _ := strconv.Atoi(number.FindString(path))
	return n
}

var serverVersion = regexp.MustCompile(`\(PostgreSQL\) ((\d+)[^\s]*)`)

// inspectServer asks the server in a folder for its version; a folder with postgres but without initdb is only half one.
func inspectServer(ctx context.Context, dir string) (serverBinaries, error) {
	if _, err := os.Stat(filepath.Join(dir, "initdb")); err != nil {
		return serverBinaries{}, err
	}
	out, err := exec.CommandContext(ctx, filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return serverBinaries{}, err
	}
	m := serverVersion.FindStringSubmatch(string(out))
	if m == nil {
		return serverBinaries{}, fmt.Errorf("%s/postgres does not say its version", dir)
	}
	major, err := strconv.Atoi(m[2])
	return serverBinaries{dir: dir, version: m[1], major: major, how: "server from " + dir}, err
}

// aptInstall installs Debian's package where that needs no question: as root, on a machine with apt-get.
func aptInstall(ctx context.Context, say Progress) error {
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		return errors.New("a package could be installed only by root on Debian")
	}
	apt, err := exec.LookPath("apt-get")
	if err != nil {
		return errors.New("there is no apt-get to install one with")
	}
	say.sayf("installing Debian's package postgresql")
	return say.during("installing postgresql", func() error {
		for _, args := range [][]string{{"update", "-qq"}, {"install", "-y", "-qq", "--no-install-recommends", "postgresql"}} {
			cmd := exec.CommandContext(ctx, apt, args...)
			// The package would make and start a cluster of its own; only its programs are wanted.
			cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1", "PG_VERSION_CREATE_MAIN_CLUSTER=false")
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("apt-get %s failed (%w): %s", args[0], err, lastLine(out))
			}
		}
		return nil
	})
}
