package store

import (
	"context"
	"slices"
	"time"

	"orderflow/internal/fault"
	"orderflow/order"
	"orderflow/store/sqlcgen"
)

// Caller is who an API key belongs to.
type Caller struct {
	KeyID  string
	Client order.ClientID
	Scopes []string
	Name   string // what the audit calls whoever holds the key; empty = the client
	Person string // the human it was given to, if it is one person's
}

// The scopes of an API key. The last three are a person's roles: each may do all that the one before it may.
const (
	ScopeCheckout = "checkout" // orders, payments, stock
	ScopeView     = "view"     // reads reviews
	ScopeOperate  = "operate"  // refunds; takes and decides reviews
	ScopeApprove  = "approve"  // is the second person
)

// Everyone is the client of a key that belongs to the installation and not to one checkout: it sees every client's reviews.
const Everyone order.ClientID = "*"

// Role is the highest role the key's scopes give; empty = none.
func (c Caller) Role() order.Role {
	switch {
	case slices.Contains(c.Scopes, ScopeApprove):
		return order.RoleApprover
	case slices.Contains(c.Scopes, ScopeOperate):
		return order.RoleOperator
	case slices.Contains(c.Scopes, ScopeView):
		return order.RoleViewer
	}
	return ""
}

// Actor is who decides with the key.
func (c Caller) Actor(channel order.Channel) order.Actor {
	name := c.Name
	if name == "" {
		name = string(c.Client)
	}
	return order.Actor{Name: name, Person: c.Person, Role: c.Role(), Channel: channel, Authenticated: true}
}

// APIKeyAdd stores the hash of an API key. Adding it again changes nothing.
func (s *Store) APIKeyAdd(ctx context.Context, c Caller, hash []byte) error {
	return translate("add api key", s.q().ApiKeyInsert(ctx, sqlcgen.ApiKeyInsertParams{KeyID: c.KeyID, ClientID: string(c.Client), Hash: hash, Scopes: c.Scopes, Name: c.Name, Person: c.Person}))
}

// APIKeyByHash finds the caller of a key.
func (s *Store) APIKeyByHash(ctx context.Context, hash []byte) (Caller, error) {
	r, err := s.q().ApiKeyByHash(ctx, hash)
	if err != nil {
		return Caller{}, translate("find api key", err)
	}
	return Caller{KeyID: r.KeyID, Client: order.ClientID(r.ClientID), Scopes: r.Scopes, Name: r.Name, Person: r.Person}, nil
}

// APIKey is a key as it is listed: who holds it since when, and never the key.
type APIKey struct {
	Caller
	CreatedAt time.Time
	RevokedAt *time.Time // nil while it is good
}

// APIKeys lists every key, also the revoked ones.
func (s *Store) APIKeys(ctx context.Context) ([]APIKey, error) {
	rows, err := s.q().ApiKeysList(ctx)
	if err != nil {
		return nil, translate("list api keys", err)
	}
	out := make([]APIKey, len(rows))
	for i, r := range rows {
		out[i] = APIKey{Caller{KeyID: r.KeyID, Client: order.ClientID(r.ClientID), Scopes: r.Scopes, Name: r.Name, Person: r.Person}, r.CreatedAt, r.RevokedAt}
	}
	return out, nil
}

// APIKeyRevoke ends a key, and reports whether it was good until now. Those who know it already forget it by themselves.
func (s *Store) APIKeyRevoke(ctx context.Context, id string) (bool, error) {
	n, err := s.q().ApiKeyRevoke(ctx, id)
	return n > 0, translate("revoke api key", err)
}

// Key names one idempotency key: never without the caller and the operation in it.
type Key struct {
	Client    order.ClientID
	Operation string // "POST /v1/orders"
	Key       string
}

// KeyState is what a key stands at.
type KeyState struct {
	Mine           bool   // this call holds the lease and must do the work for Subject
	Subject        string // the attempt or operation id bound to the key, for good
	SameRequest    bool   // the fingerprint is the stored one
	LeaseLeft      time.Duration
	Status         int // of the stored answer; 0 = none
	SealedResponse []byte
	CreatedAt      time.Time
}

// KeyClaim binds a key to subject and leases it, takes over an unfinished one whose lease has run out (it continues the
// subject bound before), or reports what stands there.
func (s *Store) KeyClaim(ctx context.Context, k Key, fingerprint []byte, subject, token string, lease time.Duration) (KeyState, error) {
	const op = "claim idempotency key"
	r, err := s.lazy().KeyClaim(ctx, sqlcgen.KeyClaimParams{
		ClientID: string(k.Client), Operation: k.Operation, Key: k.Key, Fingerprint: fingerprint, SubjectID: subject, LeaseToken: token, Lease: lease,
	})
	if err == nil {
		return KeyState{Mine: true, Subject: r.SubjectID, SameRequest: true, LeaseLeft: lease}, nil
	}
	if !isNoRows(err) {
		return KeyState{}, translate(op, err)
	}
	g, err := s.q().KeyGet(ctx, sqlcgen.KeyGetParams{ClientID: string(k.Client), Operation: k.Operation, Key: k.Key})
	if isNoRows(err) {
		return KeyState{}, fault.New(fault.DatabaseContention, op) // pruned in between: ask again
	}
	if err != nil {
		return KeyState{}, translate(op, err)
	}
	st := KeyState{Subject: g.SubjectID, SameRequest: string(g.Fingerprint) == string(fingerprint), SealedResponse: g.SealedResponse, CreatedAt: g.CreatedAt}
	st.LeaseLeft = max(0, time.Until(g.LeaseUntil))
	if g.HttpStatus != nil {
		st.Status = int(*g.HttpStatus)
	}
	return st, nil
}

// KeyComplete stores the answer, if the token still holds the lease. False means that another process took over.
func (s *Store) KeyComplete(ctx context.Context, k Key, token string, status int, sealed []byte) (bool, error) {
	n, err := s.lazy().KeyComplete(ctx, sqlcgen.KeyCompleteParams{
		HttpStatus: ptr(int32(status)), SealedResponse: sealed, ClientID: string(k.Client), Operation: k.Operation, Key: k.Key, LeaseToken: token,
	})
	return n == 1, translate("complete idempotency key", err)
}

// KeyRelease gives the lease back without an answer: the row keeps fingerprint and subject and says "try again".
func (s *Store) KeyRelease(ctx context.Context, k Key, token string) error {
	_, err := s.lazy().KeyRelease(ctx, sqlcgen.KeyReleaseParams{ClientID: string(k.Client), Operation: k.Operation, Key: k.Key, LeaseToken: token})
	return translate("release idempotency key", err)
}
