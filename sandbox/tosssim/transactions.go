package tosssim

import (
	"strconv"
	"time"
)

// transaction is one row of the listing: an approval, a cancel, or a deposit taken back.
type transaction struct {
	p      *payment
	key    string
	status string
	amount int64 // negative for money that went back
	at     time.Time
}

func (a *account) book(t transaction) { a.transactions = append(a.transactions, t) }

const (
	defaultPage = 100
	maxPage     = 5000
)

func listTransactions(_ *Sim, r *request, _ string) (any, *apiError) {
	const local = "2006-01-02T15:04:05.999"
	from, err1 := time.ParseInLocation(local, r.param("startDate"), seoul)
	to, err2 := time.ParseInLocation(local, r.param("endDate"), seoul)
	if err1 != nil || err2 != nil {
		return nil, invalid("startDate and endDate are required, as local time without an offset.")
	}
	limit := defaultPage
	if text := r.param("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxPage {
			return nil, invalid("limit must be 1 to 5000.")
		}
		limit = n
	}
	first, after := 0, r.param("startingAfter")
	if after != "" {
		for i, t := range r.account.transactions {
			if t.key == after {
				first = i + 1
			}
		}
		if first == 0 {
			return nil, coded("INVALID_TRANSACTION_KEY", "startingAfter is no transaction key.")
		}
	}
	out := []map[string]any{}
	for _, t := range r.account.transactions[first:] {
		// The wire has seconds; the window has to hold a row whose fraction was cut.
		if at := t.at.Truncate(time.Second); at.Before(from.Truncate(time.Second)) || at.After(to) || len(out) == limit {
			continue
		}
		out = append(out, map[string]any{
			"mId": r.account.name, "transactionKey": t.key, "paymentKey": t.p.key, "orderId": t.p.orderID,
			"method": methodWords[t.p.method], "customerKey": nil, "useEscrow": false, "receiptUrl": nil,
			"status": t.status, "transactionAt": stamp(t.at), "currency": t.p.currency, "amount": formatAmount(t.amount, t.p.currency),
		})
	}
	return out, nil
}
