package fault

import (
	"strconv"
	"strings"
	"time"
)

// MaxRetryAfter is the longest delay another side can ask for: a wrong clock or a hostile header must not silence an order
// for years.
const MaxRetryAfter = 24 * time.Hour

// ParseRetryAfter reads a Retry-After header (RFC 9110: seconds, or an HTTP date in one of its three forms), at most
// MaxRetryAfter. What cannot be read, or lies in the past, is 0: no delay was asked for.
func ParseRetryAfter(header string, now time.Time) time.Duration {
	header = strings.TrimSpace(header)
	if header == "" {
		return 0
	}
	if strings.Trim(header, "0123456789") == "" {
		seconds, err := strconv.ParseInt(header, 10, 64)
		if err != nil || seconds > int64(MaxRetryAfter/time.Second) {
			return MaxRetryAfter // more digits than fit is still a number
		}
		return time.Duration(seconds) * time.Second
	}
	for _, layout := range [...]string{"Mon, 02 Jan 2006 15:04:05 GMT", "Monday, 02-Jan-06 15:04:05 GMT", time.ANSIC} {
		if at, err := time.Parse(layout, header); err == nil {
			return min(max(at.Sub(now), 0), MaxRetryAfter)
		}
	}
	return 0
}
