package store

import (
	"context"
	"encoding/json"
	"time"

	"orderflow/internal/fault"
	"orderflow/order"
	"orderflow/store/sqlcgen"
)

// QueueFilter says which open reviews are wanted. What is empty does not filter.
type QueueFilter struct {
	Client     order.ClientID // whose orders; "" = everybody's, and those without an order
	Reason     order.ReviewReason
	Gateway    string        // the other side: a provider, an issuer or a receiver
	Owner      string        // the group that answers for it
	AssignedTo string        // the person who has taken it
	Unassigned bool          // only what nobody has taken
	Proposed   bool          // only what waits for a second person
	MinAge     time.Duration // only what has been open for at least this long
}

// QueueKey is where a page ended. The zero value is the beginning.
type QueueKey struct {
	OpenedAt time.Time
	ID       order.ReviewID
}

// QueueItem is one open review with what a person chooses by. Money is the order's total in minor units of its currency; an orphan has
// none of the order's fields.
type QueueItem struct {
	Review      sqlcgen.Review
	Client      order.ClientID
	OrderStatus order.Status
	Currency    string
	TotalMinor  int64
	Proposal    string // the id of the proposal that waits for a second person; empty = none
}

// MaxQueuePage is the most reviews one page holds.
const MaxQueuePage = 200

// ReviewQueue lists open reviews, the oldest first, a page at a time: after is the last page's Next. more reports that there are others
// behind this page. It stays quick with ten thousand open reviews: it reads an index of open ones from where the last page ended.
func (s *Store) ReviewQueue(ctx context.Context, f QueueFilter, after QueueKey, limit int) (items []QueueItem, more bool, err error) {
	limit = min(max(limit, 1), MaxQueuePage)
	rows, err := s.q().ReviewsQueue(ctx, sqlcgen.ReviewsQueueParams{
		ClientID: string(f.Client), Reason: string(f.Reason), Gateway: f.Gateway, Owner: f.Owner, AssignedTo: f.AssignedTo, Unassigned: f.Unassigned,
		Proposed: f.Proposed, MinAge: f.MinAge, AfterAt: after.OpenedAt, AfterID: string(after.ID), MaxRows: int32(limit) + 1,
	})
	if err != nil {
		return nil, false, translate("list reviews", err)
	}
	if len(rows) > limit {
		rows, more = rows[:limit], true
	}
	items = make([]QueueItem, len(rows))
	for i, r := range rows {
		items[i] = QueueItem{
			Review: r.Review, Client: order.ClientID(r.ClientID), OrderStatus: order.Status(r.OrderStatus), Currency: r.Currency,
			TotalMinor: r.TotalMinor, Proposal: r.ProposalID,
		}
	}
	return items, more, nil
}

// Key is where a page that ends with this item ended.
func (i QueueItem) Key() QueueKey {
	return QueueKey{OpenedAt: i.Review.OpenedAt, ID: order.ReviewID(i.Review.ReviewID)}
}

// ReasonCount is how many reviews of one reason are open.
type ReasonCount struct {
	Reason order.ReviewReason
	Open   int64
}

// ReviewCounts counts open reviews by reason, the most frequent first.
func (s *Store) ReviewCounts(ctx context.Context) ([]ReasonCount, error) {
	rows, err := s.q().ReviewsOpenCount(ctx)
	out := make([]ReasonCount, len(rows))
	for i, r := range rows {
		out[i] = ReasonCount{order.ReviewReason(r.Reason), r.N}
	}
	return out, translate("count reviews", err)
}

// ReviewFile is one review with the evidence there is. Of the subjects only the one that the review is about is set, with the attempt
// of a refund beside it; Order is nil where the review has none.
type ReviewFile struct {
	Review       sqlcgen.Review
	Order        *sqlcgen.Order
	Attempt      *sqlcgen.PaymentAttempt
	Unit         *sqlcgen.UnitGetRow
	Refund       *sqlcgen.Refund
	Orphan       *sqlcgen.OrphanPayment
	Payments     []sqlcgen.Payment              // of the order
	Operations   []sqlcgen.OperationsByOrderRow // of the order: keys and sends
	Observations []sqlcgen.Observation          // about the subject, the newest last, at most 200
	Decisions    []sqlcgen.ReviewDecision       // in the order they were made
	Proposals    []sqlcgen.DecisionProposal     // all there were; see Open
	Audit        []sqlcgen.AuditLog             // refusals and assignments, the newest first, at most 100
}

// Open is the proposal that waits for a second person, nil if there is none: one about an earlier state of the subject waits no more.
func (f ReviewFile) Open() *sqlcgen.DecisionProposal {
	for i, p := range f.Proposals {
		if f.Review.Status == "open" && p.Status == "open" && p.SubjectVersion == f.Review.SubjectVersion {
			return &f.Proposals[i]
		}
	}
	return nil
}

// Allowed is what may be decided about the review, by its reason; empty once it is resolved.
func (f ReviewFile) Allowed() []order.DecisionKind {
	if f.Review.Status != "open" {
		return nil
	}
	return order.GuidanceOf(order.ReviewReason(f.Review.Reason)).Allowed
}

// ReviewFile reads one review with its evidence. A review of another client's order is not found; an empty client reads any.
func (s *Store) ReviewFile(ctx context.Context, client order.ClientID, id order.ReviewID) (ReviewFile, error) {
	const op = "read review"
	r, err := s.Review(ctx, id)
	if err != nil {
		return ReviewFile{}, err
	}
	f := ReviewFile{Review: r}
	q := s.q()
	if r.OrderID != nil {
		o, err := q.OrderGet(ctx, *r.OrderID)
		if err != nil {
			return ReviewFile{}, translate(op, err)
		}
		f.Order = &o
	}
	if client != "" && (f.Order == nil || f.Order.ClientID != string(client)) {
		return ReviewFile{}, fault.New(fault.NotFound, op)
	}
	if err := s.readSubject(ctx, &f); err != nil {
		return ReviewFile{}, translate(op, err)
	}
	reads := []func(*sqlcgen.Queries) error{
		func(q *sqlcgen.Queries) (err error) { f.Decisions, err = q.DecisionsByReview(ctx, r.ReviewID); return },
		func(q *sqlcgen.Queries) (err error) { f.Proposals, err = q.ProposalsByReview(ctx, r.ReviewID); return },
		func(q *sqlcgen.Queries) (err error) { f.Audit, err = q.AuditByReview(ctx, r.ReviewID, 100); return },
	}
	if f.Order != nil {
		reads = append(reads,
			func(q *sqlcgen.Queries) (err error) { f.Payments, err = q.PaymentsByOrder(ctx, r.OrderID); return },
			func(q *sqlcgen.Queries) (err error) { f.Operations, err = q.OperationsByOrder(ctx, *r.OrderID); return },
			func(q *sqlcgen.Queries) (err error) {
				f.Observations, err = q.ReviewObservations(ctx, sqlcgen.ReviewObservationsParams{
					OrderID: *r.OrderID, SubjectKind: r.SubjectKind, SubjectID: r.SubjectID, MaxRows: 200,
				})
				return
			},
		)
	}
	return f, translate(op, s.readTogether(ctx, reads...))
}

func (s *Store) readSubject(ctx context.Context, f *ReviewFile) error {
	q, id := s.q(), f.Review.SubjectID
	switch order.SubjectKind(f.Review.SubjectKind) {
	case order.SubjectAttempt:
		a, err := q.AttemptGet(ctx, id)
		f.Attempt = &a
		return err
	case order.SubjectUnit:
		u, err := q.UnitGet(ctx, id)
		f.Unit = &u
		return err
	case order.SubjectRefund:
		r, err := q.RefundGet(ctx, id)
		if err != nil {
			return err
		}
		a, err := q.AttemptGet(ctx, r.AttemptID)
		f.Refund, f.Attempt = &r, &a
		return err
	case order.SubjectOrphan:
		o, err := q.OrphanGet(ctx, id)
		f.Orphan = &o
		return err
	}
	return nil
}

// Assignment gives a review to a person. From is who is expected to have it now, for taking it over; empty = nobody. An empty To gives
// it back to the queue.
type Assignment struct {
	Review order.ReviewID
	Client order.ClientID // whose reviews may be touched; "" = everybody's
	To     string
	From   string
}

// ReviewAssign gives an open review to a person, and notes in the audit log who did so. It moves nothing that a decision rests on.
// Rejections: role_too_low, review_closed, and assigned_elsewhere, beside which the review comes back with who has it.
func (s *Store) ReviewAssign(ctx context.Context, a Assignment, by order.Actor) (sqlcgen.Review, error) {
	const op = "assign review"
	if !by.Role.Decides() {
		return sqlcgen.Review{}, fault.Reject("role_too_low", op)
	}
	var out sqlcgen.Review
	err := s.inTx(ctx, op, func(ctx context.Context, w *work) error {
		r, err := w.read.ReviewLock(ctx, string(a.Review))
		if err != nil {
			return err
		}
		if a.Client != "" {
			if r.OrderID == nil {
				return fault.New(fault.NotFound, op)
			}
			o, err := w.read.OrderGet(ctx, *r.OrderID)
			if err != nil {
				return err
			}
			if o.ClientID != string(a.Client) {
				return fault.New(fault.NotFound, op)
			}
		}
		out = r
		switch {
		case r.Status != "open":
			return fault.Reject("review_closed", op)
		case r.AssignedTo == a.To:
			return nil
		case r.AssignedTo != a.From:
			return fault.Reject("assigned_elsewhere", op)
		}
		if out, err = w.read.ReviewAssign(ctx, a.To, r.ReviewID); err != nil {
			return err
		}
		detail, err := json.Marshal(map[string]any{"from": r.AssignedTo, "to": a.To, "role": by.Role, "claimed": !by.Authenticated})
		if err != nil {
			return err
		}
		return w.write.AuditInsert(ctx, sqlcgen.AuditInsertParams{
			OrderID: r.OrderID, ReviewID: &r.ReviewID, Actor: by.Name, Channel: string(by.Channel), Act: "review_assigned", Detail: detail,
		})
	})
	return out, err
}

// Figures are the four that say how much is unresolved for buyers, and since when.
type Figures struct {
	PaidNotProvided int64      // orders whose money is held and whose goods are owed
	PaidOldest      *time.Time // since when the oldest of them is paid
	Unknown         int64      // attempts, units and refunds of which nobody knows what became
	OldestUnknown   *OldestUnknown
	Orphans         int64      // payments at providers that no order explains
	OrphansOldest   *time.Time // when the oldest of them was first seen
	Failures        []Failures // what keeps failing, by who answers for it
}

// OldestUnknown is what has been unknown for longest. Since is when it was begun.
type OldestUnknown struct {
	Subject   order.SubjectKind
	SubjectID string
	Order     order.ID
	Since     time.Time
	Review    order.ReviewID // empty = it is still being looked up
}

// Failures are open reviews of steps, accounts or receivers that keep failing, by the group that answers for them and the person who
// has them.
type Failures struct {
	Owner      string
	AssignedTo string // empty = nobody has taken them
	Count      int64
	Oldest     time.Time
}

// Figures reads the four figures. Its cost follows what is unresolved.
func (s *Store) Figures(ctx context.Context) (Figures, error) {
	var now sqlcgen.FiguresNowRow
	var oldest sqlcgen.FiguresOldestUnknownRow
	var failures []sqlcgen.FiguresFailuresRow
	if err := s.readTogether(ctx,
		func(q *sqlcgen.Queries) (err error) { now, err = q.FiguresNow(ctx); return },
		func(q *sqlcgen.Queries) (err error) { failures, err = q.FiguresFailures(ctx); return },
	); err != nil {
		return Figures{}, translate("read figures", err)
	}
	f := Figures{PaidNotProvided: now.PaidNotProvided, Unknown: now.Unknown, Orphans: now.Orphans}
	if now.PaidNotProvided > 0 {
		f.PaidOldest = &now.PaidOldestAt
	}
	if now.Orphans > 0 {
		f.OrphansOldest = &now.OrphansOldestAt
	}
	oldest, err := s.q().FiguresOldestUnknown(ctx)
	switch {
	case err == nil:
		f.OldestUnknown = &OldestUnknown{
			Subject: order.SubjectKind(oldest.SubjectKind), SubjectID: oldest.SubjectID, Order: order.ID(oldest.OrderID), Since: oldest.Since,
			Review: order.ReviewID(oldest.ReviewID),
		}
	case !isNoRows(err):
		return f, translate("read figures", err)
	}
	for _, r := range failures {
		f.Failures = append(f.Failures, Failures{Owner: r.Owner, AssignedTo: r.AssignedTo, Count: r.N, Oldest: r.OldestAt})
	}
	return f, nil
}
