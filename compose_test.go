package orderflow_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/stretchr/testify/require"

	"orderflow/internal/config"
	"orderflow/internal/localstack"
)

// Goal: what docker-compose.yml says is what the programs take and what every other way of running uses. Method: load it as
// Compose does, without an engine, and give each service's environment to the code that will read it. Not covered:
// building and running the images.

func compose(t *testing.T) *types.Project {
	t.Helper()
	// The file stands alone: nothing of this machine's environment may fill or change it.
	options, err := cli.NewProjectOptions([]string{"docker-compose.yml"}, cli.WithoutEnvironmentResolution)
	require.NoError(t, err)
	project, err := options.LoadProject(t.Context())
	require.NoError(t, err)
	return project
}

func service(t *testing.T, p *types.Project, name string) types.ServiceConfig {
	t.Helper()
	s, err := p.GetService(name)
	require.NoError(t, err)
	return s
}

func TestComposeStartsTemporalAsEveryOtherWayDoes(t *testing.T) {
	t.Parallel()
	args := localstack.DevServerArgs()
	command := service(t, compose(t), "temporal").Command
	require.GreaterOrEqual(t, len(command), len(args))
	require.Equal(t, args, []string(command[:len(args)]))
	require.Equal(t, []string{"--ip", "0.0.0.0", "--db-filename", "/home/temporal/temporal.db"}, []string(command[len(args):]))
}

func TestComposeRunsThePinnedTemporal(t *testing.T) {
	t.Parallel()
	mod, err := os.ReadFile("internal/tools/go.mod")
	require.NoError(t, err)
	version := regexp.MustCompile(`github\.com/temporalio/cli v(\S+)`).FindSubmatch(mod)
	require.NotNil(t, version)
	require.Equal(t, "temporalio/temporal:"+string(version[1]), service(t, compose(t), "temporal").Image)
}

func TestComposeEnvironmentIsTakenByThePrograms(t *testing.T) {
	t.Parallel()
	p := compose(t)
	for _, name := range []string{"setup", "worker", "starter"} {
		var environ []string
		for k, v := range service(t, p, name).Environment {
			require.NotNil(t, v, "%s of %s would come from the machine", k, name)
			environ = append(environ, k+"="+*v)
		}
		slices.Sort(environ)
		c, err := config.Load(environ)
		require.NoError(t, err, name)
		require.NoError(t, c.Validate(), name)
		require.Len(t, c.Accounts, 4, name)
		_, err = c.OpenGateways()
		require.NoError(t, err, name)
		require.Len(t, c.Issuers, 3, name)
		require.Len(t, c.Receivers, 1, name)
		_, err = c.Box()
		require.NoError(t, err, name)
		_, err = c.OpenIssuers()
		require.NoError(t, err, name)
		_, err = c.EventReceivers()
		require.NoError(t, err, name)
	}
}

func TestComposeBuildsOnlyStagesThatExist(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("Dockerfile")
	require.NoError(t, err)
	var stages []string
	for _, m := range regexp.MustCompile(`(?m)^FROM \S+ AS (\S+)$`).FindAllSubmatch(text, -1) {
		stages = append(stages, string(m[1]))
	}
	for name, s := range compose(t).Services {
		if s.Build != nil {
			require.Contains(t, stages, s.Build.Target, name)
		}
	}
}

func TestComposeWaitsAndKeepsToThisMachine(t *testing.T) {
	t.Parallel()
	p := compose(t)
	for _, name := range []string{"worker", "starter"} {
		require.Equal(t, types.ServiceConditionCompletedSuccessfully, service(t, p, name).DependsOn["setup"].Condition, name)
	}
	for name, s := range p.Services {
		for _, port := range s.Ports {
			require.Equal(t, "127.0.0.1", port.HostIP, "port %s of %s", port.Published, name)
		}
		if s.HealthCheck != nil {
			require.NotEmpty(t, s.HealthCheck.Test, name)
		}
		for _, d := range s.GetDependencies() {
			dependency := service(t, p, d)
			require.True(t, s.DependsOn[d].Condition != types.ServiceConditionHealthy || dependency.HealthCheck != nil, "%s waits for the health of %s, which has no check", name, d)
		}
	}
}

// Secrets that are public must say so, or be the sandbox's own.
func TestComposeSecretsAreMarkedAsDemo(t *testing.T) {
	t.Parallel()
	p := compose(t)
	secretName := regexp.MustCompile(`(PASSWORD|SECRET|KEY|KEYS|TOKEN|_URL)$`)
	// The webhook secret's base64 reads "sandbox-only-not-a-real-secret"; the data key's, "orderflow-demo-only-not-a-secret".
	marks := []string{"demo-only", "sandbox", "c2FuZGJveC1vbmx5", "b3JkZXJmbG93LWRlbW8t", "http://127.0.0.1"}
	for name, s := range p.Services {
		for k, v := range s.Environment {
			if v == nil || !secretName.MatchString(k) {
				continue
			}
			marked := slices.ContainsFunc(marks, func(m string) bool { return strings.Contains(*v, m) })
			require.True(t, marked, "%s of %s looks like a real secret", k, name)
		}
	}
}
