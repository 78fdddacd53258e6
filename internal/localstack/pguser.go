package localstack

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// serverIdentity is the user PostgreSQL runs as when we are root, which it refuses to be. A nil identity is ourselves.
type serverIdentity struct {
	name     string
	uid, gid uint32
}

// serverUser picks the first ordinary system user there is; initdb needs one that has a name.
func serverUser() (*serverIdentity, error) {
	if os.Geteuid() != 0 {
		return nil, nil // "ourselves" is a real answer, and every method accepts it.
	}
	for _, name := range []string{"nobody", "postgres", "daemon"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err1 == nil && err2 == nil && uid != 0 {
			return &serverIdentity{name: name, uid: uint32(uid), gid: uint32(gid)}, nil
		}
	}
	return nil, errors.New("PostgreSQL does not run as root, and there is no user nobody, postgres or daemon to run it as: run this as another user, or set DATABASE_URL to a server you have")
}

func (s *serverIdentity) credential() *syscall.Credential {
	if s == nil {
		return nil
	}
	return &syscall.Credential{Uid: s.uid, Gid: s.gid}
}

// own gives files to the server's user.
func (s *serverIdentity) own(paths ...string) error {
	if s == nil {
		return nil
	}
	for _, p := range paths {
		if err := os.Chown(p, int(s.uid), int(s.gid)); err != nil {
			return fmt.Errorf("%s cannot be given to the user %s: %w", p, s.name, err)
		}
	}
	return nil
}

// reaches reports whether the user may pass through the folder and everything above it.
func (s *serverIdentity) reaches(dir string) bool {
	if s == nil {
		return true
	}
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return false
	}
	for ; ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil || !s.passes(info) {
			return false
		}
		if dir == filepath.Dir(dir) {
			return true
		}
	}
}

func (s *serverIdentity) passes(info os.FileInfo) bool {
	bit := os.FileMode(0o001)
	if owner, ok := info.Sys().(*syscall.Stat_t); ok {
		switch {
		case owner.Uid == s.uid:
			bit = 0o100
		case owner.Gid == s.gid:
			bit = 0o010
		}
	}
	return info.Mode()&bit != 0
}

// reachableBase is where clusters and unpacked servers live: the state folder, or, where the server's user cannot get
// there (a home folder closed to others), a folder in the system's temporary directory that the state folder names.
func reachableBase(s *serverIdentity) (string, error) {
	state, err := StateDir()
	if err != nil || s.reaches(state) {
		return state, err
	}
	note := filepath.Join(state, "postgres-is-in")
	if text, err := os.ReadFile(note); err == nil {
		dir := strings.TrimSpace(string(text))
		if ours(dir) && s.reaches(dir) {
			return dir, nil
		}
	}
	dir, err := os.MkdirTemp("", "orderflow-")
	if err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o711); err != nil { // others pass through and list nothing.
		return "", err
	}
	if !s.reaches(dir) {
		return "", fmt.Errorf("the user %s can reach neither %s nor %s: set %s to a folder it can reach, or run this as another user", s.name, state, dir, StateEnv)
	}
	return dir, os.WriteFile(note, []byte(dir+"\n"), 0o600)
}

// ours reports that dir is a real folder of this user that nobody else can write to. The temporary directory is
// everybody's, so a name noted earlier is not trusted by itself.
func ours(dir string) bool {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() || info.Mode().Perm()&0o022 != 0 {
		return false
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(owner.Uid) == os.Geteuid()
}

// hasName reports whether the machine knows a user id by a name.
func hasName(uid int) bool {
	_, err := user.LookupId(strconv.Itoa(uid))
	return err == nil
}
