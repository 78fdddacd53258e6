package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"orderflow/order"
	"orderflow/store"
)

type keysCommand struct {
	Add    keysAdd    `cmd:"" help:"Make an API key and print it, once: only its hash is stored."`
	List   keysList   `cmd:"" help:"List the API keys, without the keys."`
	Revoke keysRevoke `cmd:"" help:"End an API key. What was done with it stays, under its name."`
}

type keysAdd struct {
	Client string   `arg:"" help:"Whose orders the key reaches."`
	Scopes []string `required:"" enum:"checkout,view,operate,approve" help:"What it may do: checkout places orders and takes payments; view reads reviews; operate decides and refunds; approve is also the second person of what needs two."`
	Name   string   `help:"What the audit calls whoever holds it; the client's name when left out. Two keys of one name are one person where two have to agree."`
	Person string   `help:"The person it was given to, by the login on the operator page: key and login are one person then."`
}

// Run makes the key from 256 random bits.
func (k keysAdd) Run(ctx context.Context, s *streams) error {
	for what, text := range map[string]string{"the client": k.Client, "the name": k.Name, "the person": k.Person} {
		if len(text) > 100 || strings.TrimSpace(text) != text || (text == "" && what == "the client") {
			return errors.New(what + " must have 1 to 100 bytes, and no space at either end")
		}
	}
	random := make([]byte, 32)
	_, _ = rand.Read(random) // never fails: it ends the program instead
	key := "ofk_" + base64.RawURLEncoding.EncodeToString(random)
	st, err := openStore(ctx, s)
	if err != nil {
		return err
	}
	defer st.Close()
	c, hash := hashedKey(key, store.Caller{Client: order.ClientID(k.Client), Scopes: k.Scopes, Name: k.Name, Person: k.Person})
	if err := st.APIKeyAdd(ctx, c, hash); err != nil {
		return err
	}
	say(s, "key "+c.KeyID+" is stored, as its hash; this is the only time that it is shown:")
	_, err = fmt.Fprintln(s.out, key)
	return err
}

// hashedKey is what is kept of an API key: an id that tells nothing of it, and its hash.
func hashedKey(key string, c store.Caller) (store.Caller, []byte) {
	hash := sha256.Sum256([]byte(key))
	c.KeyID = "key_" + hex.EncodeToString(hash[:8])
	return c, hash[:]
}

type keysList struct{}

// Run prints one line per key.
func (keysList) Run(ctx context.Context, s *streams) error {
	st, err := openStore(ctx, s)
	if err != nil {
		return err
	}
	defer st.Close()
	all, err := st.APIKeys(ctx)
	if err != nil {
		return err
	}
	tw := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(tw, "KEY\tCLIENT\tSCOPES\tNAME\tPERSON\tSINCE\tREVOKED")
	for _, k := range all {
		_, _ = fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", k.KeyID, k.Client, strings.Join(k.Scopes, ","), orDash(k.Name), orDash(k.Person), minute(&k.CreatedAt), minute(k.RevokedAt))
	}
	return tw.Flush()
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// minute is a moment as lists show it, and a dash for none.
func minute(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04Z")
}

type keysRevoke struct {
	Key string `arg:"" help:"The key's id, as the list shows it."`
}

// Run ends a key; doing it again changes nothing.
func (k keysRevoke) Run(ctx context.Context, s *streams) error {
	st, err := openStore(ctx, s)
	if err != nil {
		return err
	}
	defer st.Close()
	ended, err := st.APIKeyRevoke(ctx, k.Key)
	if err != nil {
		return err
	}
	if !ended {
		say(s, "there is no such key, or it was revoked before")
		return exitCode(3)
	}
	say(s, "the key is revoked; a running API forgets it within seconds")
	return nil
}
