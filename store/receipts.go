package store

import (
	"cmp"
	"context"
	"slices"
	"time"

	"orderflow/internal/fault"
	"orderflow/internal/reconcile"
	"orderflow/order"
	"orderflow/store/sqlcgen"
)

// Receipt is one webhook as it is kept: what finds the payment it is about, and nothing it said beyond that.
type Receipt struct {
	Account           order.Account // with the environment the event says, else the account's
	EventID           string        // the same for every delivery of one event
	EventType         string
	ProviderPaymentID string
	MerchantReference string
	Proof             string // "signed", "secret" or "none"
	Says              order.Outcome
	WrongEnvironment  bool // not of the account's environment: it is kept and has no effect
	ProviderAt        *time.Time
}

// Kept says what storing a receipt came to.
type Kept string

// What storing a receipt comes to.
const (
	KeptFresh Kept = "stored"
	KeptCopy  Kept = "copy"  // its row stands; nothing to do
	KeptAgain Kept = "again" // its row stands and is taken up once more
)

// provenAgainAfter is how long after its last look an event that nothing proves may have another one made: its first copy may have
// been anybody's.
const provenAgainAfter = 10 * time.Second

// The results of a processed receipt.
const (
	ReceiptLook             = "look"              // its attempt is to be looked at
	ReceiptKnown            = "known"             // it claims what we know
	ReceiptIgnored          = "ignored"           // it is not about a payment
	ReceiptUnmatched        = "unmatched"         // no attempt, and no proven claim of money either
	ReceiptOrphan           = "orphan"            // no attempt, and money may be there
	ReceiptWrongEnvironment = "wrong_environment" // a test event for a live account, or the other way round
)

// ReceiptKeep stores a webhook before it is answered, once per event however many copies come (S14). What is no payment's and
// what is of the wrong environment is processed with that.
func (s *Store) ReceiptKeep(ctx context.Context, r Receipt) (Kept, error) {
	kept, err := receiptKeep(ctx, s.q(), r)
	return kept, translate("keep webhook", err)
}

// ReceiptsKeep is ReceiptKeep for several, which are stored together or not at all. What became of each stands where it stood.
func (s *Store) ReceiptsKeep(ctx context.Context, receipts []Receipt) ([]Kept, error) {
	inOrder := make([]int, len(receipts)) // one order for all processes, so that none waits for another in a ring
	for i := range inOrder {
		inOrder[i] = i
	}
	slices.SortStableFunc(inOrder, func(a, b int) int { return compareReceipts(receipts[a], receipts[b]) })
	kept := make([]Kept, len(receipts))
	err := s.inTx(ctx, "keep webhooks", func(ctx context.Context, w *work) error {
		for _, i := range inOrder {
			var err error
			if kept[i], err = receiptKeep(ctx, w.read, receipts[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return kept, nil
}

func compareReceipts(a, b Receipt) int {
	return cmp.Or(
		cmp.Compare(a.Account.Gateway, b.Account.Gateway), cmp.Compare(a.Account.Name, b.Account.Name),
		cmp.Compare(a.Account.Environment, b.Account.Environment), cmp.Compare(a.EventID, b.EventID),
	)
}

func receiptKeep(ctx context.Context, q *sqlcgen.Queries, r Receipt) (Kept, error) {
	result := ""
	switch {
	case r.WrongEnvironment:
		result = ReceiptWrongEnvironment
	case r.ProviderPaymentID == "" && r.MerchantReference == "":
		result = ReceiptIgnored
	}
	row, err := q.ReceiptKeep(ctx, sqlcgen.ReceiptKeepParams{
		Gateway: r.Account.Gateway, Account: r.Account.Name, Environment: r.Account.Environment, EventID: r.EventID, EventType: r.EventType,
		ProviderPaymentID: r.ProviderPaymentID, MerchantReference: r.MerchantReference, Proof: r.Proof, Says: string(r.Says),
		WrongEnvironment: r.WrongEnvironment, ProviderAt: r.ProviderAt, Result: result, AgainAfter: provenAgainAfter,
	})
	switch {
	case isNoRows(err):
		return KeptCopy, nil
	case err != nil:
		return "", err
	case row.Fresh:
		return KeptFresh, nil
	}
	return KeptAgain, nil
}

// Processed is what became of one receipt.
type Processed struct {
	Account order.Account
	Result  string        // "" = it waits for its attempt
	Age     time.Duration // since it was received, by the database's clock
}

// ReceiptsProcess takes up to max receipts whose turn it is: those about an attempt note that it must be looked at, once per
// attempt however many there are, unless they claim what is known; the others wait for their attempt until orphanAfter. One
// transaction, beside other processes that take other receipts. It waits for no disk: what a crash of the database takes back is
// processed again.
func (s *Store) ReceiptsProcess(ctx context.Context, orphanAfter time.Duration, max int) ([]Processed, error) {
	var out []Processed
	err := s.inTx(ctx, "process webhooks", func(ctx context.Context, w *work) error {
		out = nil
		rows, err := w.read.ReceiptsTake(ctx, orphanAfter, int32(max))
		if err != nil || len(rows) == 0 {
			return err
		}
		b := receiptBatch{looks: map[string]string{}}
		for _, r := range rows {
			out = append(out, Processed{
				Account: order.Account{Gateway: r.Gateway, Name: r.Account, Environment: r.Environment}, Result: b.add(r),
				Age: time.Duration(r.AgeMs) * time.Millisecond,
			})
		}
		if len(b.orphans) == 0 { // else a person relies on the review
			w.lazily()
		}
		if err := noteOrphans(ctx, w, orphanNotes(b.orphans), DefaultOwner); err != nil {
			return err
		}
		return b.write(ctx, w)
	})
	return out, err
}

// receiptBatch is what one round writes.
type receiptBatch struct {
	done    []int64
	results []string
	waits   []int64
	waitMs  []int64
	matched []string // what matched receipts would be called as orphans, beside their attempts
	of      []string
	looks   map[string]string // what each attempt's notices claim; "" = not one thing
	orphans []sqlcgen.ReceiptsTakeRow
}

func (b *receiptBatch) add(r sqlcgen.ReceiptsTakeRow) string {
	result := receiptResult(r)
	if result == "" {
		b.waits, b.waitMs = append(b.waits, r.ReceiptID), append(b.waitMs, receiptWait(int(r.Tries)).Milliseconds())
		return result
	}
	b.done, b.results = append(b.done, r.ReceiptID), append(b.results, result)
	if r.AttemptID != "" {
		b.explains(r)
	}
	switch result {
	case ReceiptLook:
		if before, there := b.looks[r.AttemptID]; there && before != r.Says {
			r.Says = ""
		}
		b.looks[r.AttemptID] = r.Says
	case ReceiptOrphan:
		b.orphans = append(b.orphans, r)
	}
	return result
}

// explains notes that an attempt was found for what earlier receipts may have called an orphan.
func (b *receiptBatch) explains(r sqlcgen.ReceiptsTakeRow) {
	if r.ProviderPaymentID != "" {
		b.matched, b.of = append(b.matched, r.ProviderPaymentID), append(b.of, r.AttemptID)
	}
	if r.MerchantReference != "" {
		b.matched, b.of = append(b.matched, reconcile.Subject("", r.MerchantReference)), append(b.of, r.AttemptID)
	}
}

// receiptResult decides what becomes of a receipt; "" means that its attempt may still come.
func receiptResult(r sqlcgen.ReceiptsTakeRow) string {
	switch {
	case r.AttemptID != "" && claimsKnown(order.Outcome(r.Says), order.Status(r.AttemptStatus)):
		return ReceiptKnown
	case r.AttemptID != "":
		return ReceiptLook
	case !r.Overdue:
		return ""
	case r.Proof == "none" || !mayBeMoney(order.Outcome(r.Says)):
		return ReceiptUnmatched
	}
	return ReceiptOrphan
}

// saysSettled stands in a wanted look for a buyer who waits for any outcome.
const saysSettled order.Outcome = "settled"

// sendingWait is how long a look waits for the run that is sending the attempt right now.
const sendingWait = 2 * time.Second

// claimsKnown: the notice says no more than what the attempt has come to.
func claimsKnown(says order.Outcome, s order.Status) bool {
	switch says {
	case order.Succeeded:
		return s == order.AttemptSucceeded
	case order.Untouched: // the echo of our own preparing; it is news only where the outcome is not known
		return s != order.AttemptUnknown && s != order.AttemptPending
	case saysSettled:
		return s == order.AttemptSucceeded || s == order.AttemptDeclined || s == order.AttemptClosed
	case order.Declined:
		return s == order.AttemptDeclined || s == order.AttemptClosed
	case order.Pending:
		return s == order.AttemptPending
	}
	return false
}

// mayBeMoney: what does not say that nothing was captured may be about money that was.
func mayBeMoney(says order.Outcome) bool {
	switch says {
	case order.Declined, order.Pending, order.Untouched, order.NotFound:
		return false
	}
	return true
}

// receiptWait grows: an event can be ahead of the transaction that stores its attempt by moments, and of an id that came by a
// later lookup by minutes.
func receiptWait(tries int) time.Duration {
	return min(250*time.Millisecond<<min(tries, 10), time.Minute)
}

func (b *receiptBatch) write(ctx context.Context, w *work) error {
	if len(b.looks) > 0 {
		p := sqlcgen.LooksWantParams{Source: "webhook", SendingWait: sendingWait}
		for id, says := range b.looks {
			p.AttemptIds, p.Says = append(p.AttemptIds, id), append(p.Says, says)
		}
		if err := w.write.LooksWant(ctx, p); err != nil {
			return err
		}
	}
	if len(b.matched) > 0 {
		if err := w.write.OrphansLink(ctx, b.matched, b.of); err != nil {
			return err
		}
	}
	if len(b.waits) > 0 {
		if err := w.write.ReceiptsLater(ctx, b.waits, b.waitMs); err != nil {
			return err
		}
	}
	if len(b.done) == 0 {
		return nil
	}
	return w.write.ReceiptsDone(ctx, b.done, b.results)
}

// orphanNote is what is known of a payment that nothing explains.
type orphanNote struct {
	account       order.Account
	id, reference string
	says          string
	currency      string
	capturedMinor int64
	at            *time.Time // the provider's clock
}

func (n orphanNote) subject() string { return reconcile.Subject(n.id, n.reference) }

// DefaultOwner is the group that answers for a review: the schema's default for all of them.
const DefaultOwner = "operations"

// noteOrphans keeps payments that nothing explains, one row and one open review each. What a person has closed stays closed.
func noteOrphans(ctx context.Context, w *work, notes []orphanNote, owner string) error {
	slices.SortFunc(notes, func(a, b orphanNote) int { return cmp.Compare(a.subject(), b.subject()) }) // one order for all processes
	for _, n := range notes {
		o, err := w.read.OrphanNote(ctx, sqlcgen.OrphanNoteParams{
			OrphanID: string(order.NewOrphanID()), Gateway: n.account.Gateway, Account: n.account.Name, Environment: n.account.Environment,
			Subject: n.subject(), ProviderPaymentID: n.id, MerchantReference: n.reference, Says: n.says, Currency: n.currency,
			CapturedMinor: n.capturedMinor, ProviderAt: n.at,
		})
		if err != nil {
			return err
		}
		if o.Status != "open" {
			continue
		}
		err = w.write.OrphanReviewOpen(ctx, sqlcgen.OrphanReviewOpenParams{
			ReviewID: string(order.NewReviewID()), OrphanID: o.OrphanID, Owner: owner, Gateway: n.account.Gateway,
			NextCheckAt: time.Now().Add(order.DefaultPolicy().ReviewCheckEvery),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func orphanNotes(rows []sqlcgen.ReceiptsTakeRow) []orphanNote {
	out := make([]orphanNote, len(rows))
	for i, r := range rows {
		out[i] = orphanNote{
			account: order.Account{Gateway: r.Gateway, Name: r.Account, Environment: r.Environment},
			id:      r.ProviderPaymentID, reference: r.MerchantReference, says: r.Says,
		}
	}
	return out
}

// Look is an attempt whose order's run is to be told to look.
type Look struct {
	Attempt order.AttemptID
	Order   order.ID
	Source  string // "webhook" or "return"
	Seq     int64  // how often it was asked for
	Known   bool   // the attempt has come to what was claimed meanwhile: nobody needs to be told
}

// LookWant notes that somebody waits for a look at an attempt: it comes before those that only webhooks asked for.
func (s *Store) LookWant(ctx context.Context, id order.AttemptID, source string) error {
	return translate("note wanted look", s.lazy().LooksWant(ctx, sqlcgen.LooksWantParams{
		Source: source, WaitedFor: true, AttemptIds: []string{string(id)}, Says: []string{string(saysSettled)}, SendingWait: sendingWait / 4,
	}))
}

// LooksTake leases the next looks of one provider account to this process.
func (s *Store) LooksTake(ctx context.Context, a order.Account, lease time.Duration, max int) ([]Look, error) {
	rows, err := s.lazy().LooksTake(ctx, sqlcgen.LooksTakeParams{Lease: lease, Gateway: a.Gateway, Account: a.Name, Environment: a.Environment, MaxRows: int32(max)})
	out := make([]Look, len(rows))
	for i, r := range rows {
		out[i] = Look{Attempt: order.AttemptID(r.AttemptID), Order: order.ID(r.OrderID), Source: r.Source, Seq: r.AskedSeq, Known: claimsKnown(order.Outcome(r.Says), order.Status(r.Status))}
	}
	return out, translate("take wanted looks", err)
}

// LooksLater puts looks off: the rate does not allow them now, or nobody could be told.
func (s *Store) LooksLater(ctx context.Context, ids []order.AttemptID, wait time.Duration) error {
	if len(ids) == 0 {
		return nil
	}
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = string(id)
	}
	slices.Sort(texts)
	return translate("put looks off", s.lazy().LooksLater(ctx, wait, texts))
}

// LookTold ends a wanted look whose run was told, unless it was asked for again meanwhile.
func (s *Store) LookTold(ctx context.Context, l Look) error {
	gone, err := s.lazy().LookTold(ctx, string(l.Attempt), l.Seq)
	if err == nil && gone == 0 {
		err = s.lazy().LookAskedAgain(ctx, string(l.Attempt), l.Seq)
	}
	return translate("end wanted look", err)
}

// LooksWaiting counts the looks that wait for their turn, up to ten thousand.
func (s *Store) LooksWaiting(ctx context.Context) (int64, error) {
	n, err := s.q().LooksWaiting(ctx)
	return n, translate("count wanted looks", err)
}

// AttemptAskOnce notes at a settled attempt that it has to be asked once more; a run looks at it then, which it would not otherwise.
func (s *Store) AttemptAskOnce(ctx context.Context, id order.AttemptID) error {
	return translate("note wanted look", s.lazy().AttemptAskOnce(ctx, string(id)))
}

// AttemptByProvider finds the attempt a provider speaks of: by its own id, else by our reference. Not found is a fault.
func (s *Store) AttemptByProvider(ctx context.Context, a order.Account, providerPaymentID, reference string) (sqlcgen.PaymentAttempt, error) {
	row, err := s.q().AttemptByProvider(ctx, sqlcgen.AttemptByProviderParams{
		Gateway: a.Gateway, Account: a.Name, Environment: a.Environment, ProviderPaymentID: providerPaymentID, MerchantReference: reference,
	})
	return row, translate("find attempt", err)
}

// AttemptByReturnToken finds the attempt whose buyer a provider sent back, by the hash of the token in the address. Not found is a
// fault.
func (s *Store) AttemptByReturnToken(ctx context.Context, hash []byte) (sqlcgen.PaymentAttempt, error) {
	if len(hash) == 0 {
		return sqlcgen.PaymentAttempt{}, fault.New(fault.NotFound, "find attempt")
	}
	row, err := s.q().AttemptByReturnToken(ctx, hash)
	return row, translate("find attempt", err)
}

// OrphansOpen lists payments that nothing explains yet, oldest first.
func (s *Store) OrphansOpen(ctx context.Context, max int) ([]sqlcgen.OrphanPayment, error) {
	rows, err := s.q().OrphansOpen(ctx, int32(max))
	return rows, translate("list orphan payments", err)
}
