package reconcile

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"orderflow/internal/money"
	"orderflow/order"
)

// StatementColumns are what the first line of a settlement file names, in any order. Other columns are not read.
var StatementColumns = []string{"invoice_number", "amount", "currency", "status", "time"}

// optionalColumn holds the provider's own id of the payment, where it has one.
const optionalColumn = "payment_id"

// maxLine is how long one line may be.
const maxLine = 64 << 10

// StatementForm says how to read a settlement file.
type StatementForm struct {
	Zone *time.Location // of times without an offset; nil = UTC
	// InvoiceIsID: the provider knows a payment by our reference and has no id of its own.
	InvoiceIsID bool
}

// ReadStatement reads a settlement file line by line, as long as it may be, and gives each payment with the number of its line. A
// line that cannot be read goes to bad and the next one is read: a record never runs over a line break, so one broken line takes no
// other with it. Errors of item and of r end it.
func ReadStatement(r io.Reader, form StatementForm, item func(line int, i Item) error, bad func(line int, why string)) error {
	if form.Zone == nil {
		form.Zone = time.UTC
	}
	lines := bufio.NewReaderSize(r, 4096)
	var head header
	for n := 1; ; n++ {
		raw, long, err := readLine(lines)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		last := err != nil
		if n == 1 {
			if head, err = readHeader(bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf"))); err != nil || long {
				return errors.Join(errNoHeader, err)
			}
		} else if why, err := oneLine(raw, long, head, form, func(i Item) error { return item(n, i) }); err != nil {
			return err
		} else if why != "" {
			bad(n, why)
		}
		if last {
			return nil
		}
	}
}

var errNoHeader = fmt.Errorf("the first line must name the columns: %s", strings.Join(StatementColumns, ","))

func oneLine(raw []byte, long bool, h header, form StatementForm, item func(Item) error) (why string, err error) {
	if long {
		return fmt.Sprintf("is longer than %d bytes", maxLine), nil
	}
	if len(bytes.TrimSpace(raw)) == 0 {
		return "", nil
	}
	fields, err := csv.NewReader(bytes.NewReader(raw)).Read()
	if err != nil {
		return "is no line of comma-separated values", nil //nolint:nilerr // it is the line's fault, and it is reported
	}
	i, err := h.item(fields, form)
	if err != nil {
		return err.Error(), nil
	}
	return "", item(i)
}

// readLine gives one line without its break. What is beyond the limit is thrown away and reported.
func readLine(r *bufio.Reader) (line []byte, long bool, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > maxLine {
			long = true
		} else {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimRight(line, "\r\n"), long, err
		}
	}
}

// header is where each column stands.
type header struct {
	at     map[string]int
	fields int
}

func readHeader(raw []byte) (header, error) {
	names, err := csv.NewReader(bytes.NewReader(raw)).Read()
	if err != nil {
		return header{}, errors.New("it is no line of comma-separated values")
	}
	h := header{at: map[string]int{}, fields: len(names)}
	for n, name := range names {
		name = strings.ToLower(strings.TrimSpace(name))
		if _, twice := h.at[name]; twice && (slices.Contains(StatementColumns, name) || name == optionalColumn) {
			return h, fmt.Errorf("the column %s is named twice", name)
		}
		h.at[name] = n
	}
	for _, c := range StatementColumns {
		if _, ok := h.at[c]; !ok {
			return h, fmt.Errorf("the column %s is missing", c)
		}
	}
	return h, nil
}

// item reads one line's fields. Its errors name the column and never quote what stands there.
func (h header) item(fields []string, form StatementForm) (Item, error) {
	if len(fields) != h.fields {
		return Item{}, fmt.Errorf("has %d fields where the first line has %d", len(fields), h.fields)
	}
	get := func(name string) string {
		if n, ok := h.at[name]; ok {
			return strings.TrimSpace(fields[n])
		}
		return ""
	}
	i := Item{MerchantReference: get("invoice_number"), ProviderPaymentID: get(optionalColumn), Outcome: statementOutcome(get("status"))}
	switch {
	case !plainID(i.MerchantReference):
		return i, errors.New("invoice_number must be 1 to 64 visible ASCII characters")
	case i.ProviderPaymentID != "" && !plainID(i.ProviderPaymentID):
		return i, errors.New("payment_id must be at most 64 visible ASCII characters")
	case get("status") == "":
		return i, errors.New("status is empty")
	}
	if i.ProviderPaymentID == "" && form.InvoiceIsID {
		i.ProviderPaymentID = i.MerchantReference
	}
	i.Currency = money.Currency(strings.ToUpper(get("currency")))
	if _, err := i.Currency.Exponent(); err != nil {
		return i, errors.New("currency must be a three-letter code such as THB")
	}
	amount, err := money.Parse(get("amount"), i.Currency)
	if err != nil || amount.Minor <= 0 {
		return i, errors.New("amount must be a decimal above zero that the currency can say exactly, such as 1500.00")
	}
	i.AmountMinor = amount.Minor
	if i.Outcome == order.Succeeded {
		i.CapturedMinor = amount.Minor
	}
	if i.At, err = statementTime(get("time"), form.Zone); err != nil {
		return i, errors.New("time must be like 2026-06-05T16:58:18+07:00 or 2026-06-05 16:58:18")
	}
	return i, nil
}

func plainID(s string) bool {
	return s != "" && len(s) <= 64 && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

// statementOutcome reads the words that settlement files have for a payment's state. One that is not known says no more than that
// there was a payment, which is a reason to ask.
func statementOutcome(word string) order.Outcome {
	switch strings.ToLower(word) {
	case "s", "settled", "paid", "success", "successful", "captured":
		return order.Succeeded
	case "failed", "declined", "rejected", "canceled", "cancelled", "expired", "pf", "ar", "ff", "ip", "roe": // 2C2P's own words among them
		return order.Declined
	}
	return order.Unknown
}

func statementTime(text string, zone *time.Location) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	return time.ParseInLocation("2006-01-02 15:04:05", text, zone)
}
