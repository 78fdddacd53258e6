package order

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Goal: whoever is woken by a review finds its page, and the page names no button that is not there. Method: docs/runbook.md against the table of
// guidance, both ways. Not covered: whether the advice is good.
func TestRunbookHasASectionPerReason(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/runbook.md")
	require.NoError(t, err)
	sections := map[string]string{}
	for _, part := range strings.Split(string(page), "\n## ")[1:] {
		title, text, _ := strings.Cut(part, "\n")
		reason := strings.Trim(title, "`")
		require.NotContains(t, sections, reason, "two sections of one reason")
		sections[reason] = text
	}
	names := regexp.MustCompile("`([a-z_]+)`")
	for _, g := range GuidanceTable() {
		text, found := sections[string(g.Reason)]
		if !found {
			t.Errorf("docs/runbook.md has no section for %s: write what it means, where the evidence is and what to press", g.Reason)
			continue
		}
		delete(sections, string(g.Reason))
		_, rest, means := strings.Cut(text, "**Means.** ")
		_, rest, evidence := strings.Cut(rest, "**Evidence.** ")
		_, press, pressed := strings.Cut(rest, "**Press.** ")
		require.True(t, means && evidence && pressed, "the section of %s says what it means, where the evidence is and what to press", g.Reason)
		for _, m := range names.FindAllStringSubmatch(press, -1) {
			if d := DecisionKind(m[1]); slices.Contains(DecisionKinds, d) {
				require.True(t, g.Allows(d), "%s does not allow %s", g.Reason, d)
			}
		}
	}
	require.Empty(t, sections, "sections of reasons that are not there any more")
}
