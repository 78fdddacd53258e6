package store

import (
	"crypto/sha256"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderflow/internal/fault"
)

const someHash = "$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHQ$c29tZWhhc2g"

func sessionHash(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}

func TestOperatorsAndSessions(t *testing.T) {
	t.Parallel()
	e := setup(t)
	ann := Operator{Login: "ann", Name: "Ann", Role: "approver", PasswordHash: someHash}
	require.NoError(t, e.s.OperatorAdd(e.ctx(), ann))
	requireWhy(t, e.s.OperatorAdd(e.ctx(), ann), fault.ConstraintViolated, "login_taken")
	got, err := e.s.Operator(e.ctx(), "ann")
	require.NoError(t, err)
	require.Equal(t, someHash, got.PasswordHash)
	_, err = e.s.Operator(e.ctx(), "nobody")
	require.True(t, fault.IsCode(err, fault.NotFound))

	require.NoError(t, e.s.SessionOpen(e.ctx(), sessionHash("one"), "ann", time.Hour))
	require.NoError(t, e.s.SessionOpen(e.ctx(), sessionHash("two"), "ann", time.Hour))
	who, err := e.s.Session(e.ctx(), sessionHash("one"))
	require.NoError(t, err)
	require.Equal(t, Operator{Login: "ann", Name: "Ann", Role: "approver"}, who)
	none := func(token string) {
		t.Helper()
		_, err := e.s.Session(e.ctx(), sessionHash(token))
		require.True(t, fault.IsCode(err, fault.NotFound), "%v", err)
	}
	none("three")
	require.NoError(t, e.s.SessionEnd(e.ctx(), sessionHash("one")))
	none("one")

	e.exec("UPDATE operator_sessions SET created_at = now() - interval '2 hours', expires_at = now() - interval '1 second'")
	none("two")
	n, err := e.s.SessionsPrune(e.ctx())
	require.NoError(t, err)
	require.EqualValues(t, 1, n)

	require.NoError(t, e.s.SessionOpen(e.ctx(), sessionHash("four"), "ann", time.Hour))
	ended, err := e.s.OperatorDisable(e.ctx(), "ann")
	require.NoError(t, err)
	require.True(t, ended)
	none("four")
	ended, err = e.s.OperatorDisable(e.ctx(), "ann")
	require.NoError(t, err)
	require.False(t, ended)
	// A session that slipped in beside the disabling is none either.
	require.NoError(t, e.s.SessionOpen(e.ctx(), sessionHash("five"), "ann", time.Hour))
	none("five")
	all, err := e.s.Operators(e.ctx())
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.NotNil(t, all[0].DisabledAt)
	require.Empty(t, all[0].PasswordHash)
}

func TestOperatorConstraints(t *testing.T) {
	t.Parallel()
	e := setup(t)
	for why, o := range map[string]Operator{
		"operators_login_form":      {Login: "Ann Smith", Name: "x", Role: "viewer", PasswordHash: someHash},
		"operators_name_present":    {Login: "ann", Role: "viewer", PasswordHash: someHash},
		"operators_role_known":      {Login: "ann", Name: "x", Role: "root", PasswordHash: someHash},
		"operators_password_hashed": {Login: "ann", Name: "x", Role: "viewer", PasswordHash: "hunter2"},
	} {
		requireWhy(t, e.s.OperatorAdd(e.ctx(), o), fault.ConstraintViolated, why)
	}
}

// Guessing side by side gets no more tries than guessing one after another.
func TestLoginsAreLimited(t *testing.T) {
	t.Parallel()
	e := setup(t)
	l := LoginLimit{Bucket: "login/a", Size: 5, Every: time.Hour}
	var let atomic.Int64
	for _, err := range together(20, func(int) error {
		ok, err := e.s.LoginTake(e.ctx(), l)
		if ok {
			let.Add(1)
		}
		return err
	}) {
		require.NoError(t, err)
	}
	require.EqualValues(t, 5, let.Load())
	require.NoError(t, e.s.LoginGiveBack(e.ctx(), l))
	take := func(l LoginLimit) bool {
		ok, err := e.s.LoginTake(e.ctx(), l)
		require.NoError(t, err)
		return ok
	}
	require.True(t, take(l), "a login that succeeded cost nothing")
	require.False(t, take(l))
	e.exec("UPDATE rate_buckets SET refilled_at = refilled_at - interval '90 minutes'")
	require.True(t, take(l), "one came back in an hour")
	require.False(t, take(l))
	require.True(t, take(LoginLimit{Bucket: "login/b", Size: 5, Every: time.Hour}))
}
