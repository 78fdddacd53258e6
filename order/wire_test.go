package order

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestWorkflowIDIsPrintableASCIIAndKeepsOrdersApart(t *testing.T) {
	t.Parallel()
	for id, want := range map[ID]string{
		"o-1":     "order/o-1",
		"a/b c":   "order/a/b c",
		"日本":      "order/%E6%97%A5%E6%9C%AC",
		"100%":    "order/100%25",
		"%E6":     "order/%25E6",
		"\u00a0x": "order/%C2%A0x",
	} {
		assert.Equal(t, want, WorkflowID(id))
	}
}
