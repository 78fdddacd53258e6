package operator

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPasswords(t *testing.T) {
	t.Parallel()
	const password = "correct horse battery"
	hash, other := HashPassword(password), HashPassword(password)
	require.NotEqual(t, hash, other, "each has a salt of its own")
	require.True(t, passwordFits(hash, password))
	require.True(t, passwordFits(other, password))
	require.False(t, passwordFits(hash, password+" "))
	require.False(t, passwordFits(hash, ""))
	cheap := "$argon2id$v=19$m=64,t=1,p=1$" + strings.SplitN(hash, "$", 5)[4]
	require.False(t, passwordFits(cheap, password), "the parameters belong to the hash")
	for _, broken := range []string{
		"", password, "$argon2id$", "$argon2i$v=19$m=64,t=1,p=1$c2FsdHNhbHQ$AAAA", "$argon2id$v=18$m=64,t=1,p=1$c2FsdHNhbHQ$AAAAAAAAAAAAAAAAAAAAAA",
		"$argon2id$v=19$m=99999999,t=1,p=1$c2FsdHNhbHQ$AAAAAAAAAAAAAAAAAAAAAA", "$argon2id$v=19$m=64,t=0,p=0$c2FsdHNhbHQ$AAAAAAAAAAAAAAAAAAAAAA",
		"$argon2id$v=19$m=64,t=1,p=1$!$AAAAAAAAAAAAAAAAAAAAAA", "$argon2id$v=19$m=64,t=1,p=1$c2FsdHNhbHQ$",
	} {
		require.False(t, passwordFits(broken, password), broken)
		require.False(t, passwordFits(broken, ""), broken)
	}
	require.NoError(t, CheckPassword(password))
	require.NoError(t, CheckPassword(strings.Repeat("あ", MinPassword)))
	for _, bad := range []string{"", "hunter2", strings.Repeat("x", MaxPassword+1), "not utf-8 at all \xff"} {
		err := CheckPassword(bad)
		require.Error(t, err)
		if bad != "" {
			require.NotContains(t, err.Error(), bad)
		}
	}
}
