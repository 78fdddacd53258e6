package twoctwop

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderflow/gateways"
	"orderflow/internal/fault"
)

// Every code that 2C2P's documents name, copied from them and not from the table, with the class of what a write that is
// answered so leads to. A code without a row would be taken for unknown and never decide anything.
var documented = map[fault.Class]string{
	fault.InProgress: "0001 2001 4009",
	fault.Conflict: "0003 0004 4110 4094 4001 4005 4012 4014 4033 4051 4054 4055 4057 4061 4062 4065 5007 5009 4034 4041 4043 4059 " +
		"4080 4081 5014 4045 4046 4047 4048 4000 4120 4121 4122 4130 4200 4201 4202 5005 9015 9020 9035 9041 AE AL AM",
	fault.Unknown:   "0000 0999 2002 2003 4091 4096 4099 5002 9990 9991 9992 9993 9994 9995 9996 9999",
	fault.Transient: "9038",
	fault.Invalid:   "4013 5003 5006 5008 9004 9005 9006 9008 9009 9010 9040 9057 9901 9902 9903 9904 9905 9906 9907 9908",
	fault.Misconfigured: "5004 6101 6102 6103 6104 6105 6106 6107 6108 6109 6110 9007 9042 " +
		"9900",
}

func TestEveryDocumentedCodeHasARow(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	for _, r := range codeTable {
		for c := range strings.FieldsSeq(r.codes) {
			seen[c]++
		}
	}
	total := 0
	for class, codes := range documented {
		for code := range strings.FieldsSeq(codes) {
			total++
			require.Equal(t, 1, seen[code], "code %s has one row", code)
			require.Equal(t, class, fault.PolicyOf(writeCode(code)).Class, "a write answered with %s", code)
			require.NotEqual(t, fault.Declined, fault.PolicyOf(writeCode(code)).Class, "a decline is never believed from a write")
		}
	}
	require.Len(t, seen, total, "the table holds no code that the documents do not name")
}

// TestResultCodes says what a signed inquiry means with each code.
func TestResultCodes(t *testing.T) {
	t.Parallel()
	for result, codes := range map[says]string{
		saysPaid:    "0000 4110",
		saysPending: "0001 2001 4009",
		saysAbsent:  "2002",
		saysDeclined: "0004 4001 4005 4012 4014 4033 4034 4041 4043 4051 4054 4055 4057 4059 4061 4062 4065 4080 4081 " +
			"5007 9035",
		saysEnded:     "0003 5009 9020",
		saysUndecided: "0999 4091 4094 4096 4099 5002 5005 9990 9991 9992 9993 9994 9995 9996 9999",
		saysReview:    "4000 4013 4045 4046 4047 4048 4120 4121 4122 4130 4200 4201 4202 5003 5004 5006 5008 5014 AE AL AM",
		saysNothing: "2003 9004 9005 9006 9007 9008 9009 9010 9015 9038 9040 9041 9042 9057 9900 9901 9908 6101 6110 " +
			"2014 1003 4002 7777 0 00 A",
	} {
		for code := range strings.FieldsSeq(codes) {
			require.Equal(t, result, resultOf(code), "code %s", code)
		}
	}
}

func TestUnlistedCodesDecideNothing(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"2014", "4002", "7777", "", "00", "0000 4110"} {
		require.Equal(t, fault.PaymentUnknown, writeCode(code))
		require.Equal(t, fault.GatewayReadFailed, bareCode(code))
	}
}

// TestFlowCodes: after 1000 to 1005 the buyer acts, 2000 is a hint, and nothing else is a flow.
func TestFlowCodes(t *testing.T) {
	t.Parallel()
	var listed []string
	for code, flow := range flowTable {
		listed = append(listed, code)
		require.NotEmpty(t, flow.action)
		_, isResult := rowOf(code)
		require.False(t, isResult, "%s is no result", code)
	}
	slices.Sort(listed)
	require.Equal(t, []string{"1000", "1001", "1002", "1003", "1004", "1005"}, listed)
	_, isResult := rowOf(doneFlow)
	require.False(t, isResult)
}

// TestEveryStatusHasAMeaning: every status of the maintenance API, from its documents.
func TestEveryStatusHasAMeaning(t *testing.T) {
	t.Parallel()
	want := map[string]stateRow{
		"AP": {StateApproving, false}, "A": {StateAuthorized, false}, "RS": {StateSettling, false}, "S": {StateSettled, true},
		"AE": {StateReview, false}, "AL": {StateReview, false}, "AM": {StateReview, false},
		"PF": {StateFailed, true}, "AR": {StateFailed, true}, "FF": {StateFailed, true}, "IP": {StateFailed, true}, "ROE": {StateFailed, true},
		"EX": {StateExpired, true}, "VP": {StateVoiding, false}, "V": {StateVoided, true},
		"RP": {StateRefunding, false}, "RF": {StateRefunded, true}, "RFF": {StateRefundFailed, true},
		"RR": {StateRefundRefused, true}, "RR1": {StateRefundRefused, true}, "RR2": {StateRefundRefused, true}, "RR3": {StateRefundRefused, true},
		"CTS": {StateTokenized, true}, "CTF": {StateTokenized, true},
	}
	require.Equal(t, want, states)
	for _, odd := range []string{"", "a", "XX", "S ", "RR4"} {
		_, ok := stateOf(odd)
		require.False(t, ok, "%q", odd)
	}
}

func TestEveryMaintenanceCodeHasARow(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	for _, r := range maintenanceTable {
		for c := range strings.FieldsSeq(r.codes) {
			seen[c]++
		}
	}
	total := 0
	for code, codes := range map[fault.Code]string{
		fault.PaymentInvalid:       "01 02 03 04 05 10 11 13 14 15 17 18",
		fault.PaymentAlready:       "12 16 21 22 25 29 30 31 32 33 34 35 39 40 41 43 44 49",
		fault.PaymentInProgress:    "42",
		fault.PaymentNeedsReview:   "36 46 54",
		fault.PaymentUnknown:       "45 95 99",
		fault.GatewayMisconfigured: "96 97",
	} {
		for c := range strings.FieldsSeq(codes) {
			total++
			require.Equal(t, 1, seen[c], "code %s has one row", c)
			require.Equal(t, code, maintenanceCode(gateways.Refund, c), "code %s", c)
		}
	}
	require.Len(t, seen, total)
	require.Equal(t, fault.PaymentUnknown, maintenanceCode(gateways.Refund, "98"), "an unlisted code may hide a refund")
	require.Equal(t, fault.GatewayReadFailed, maintenanceCode(read, "98"))
	require.Equal(t, fault.GatewayReadFailed, maintenanceCode(read, "95"))
	require.Equal(t, fault.PaymentNotFound, maintenanceCode(read, "16"))
	require.Equal(t, fault.GatewayMisconfigured, maintenanceCode(read, "96"))
}
