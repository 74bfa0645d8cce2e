import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { type TestContext, test } from 'node:test';
import { pipInstalled } from '../support/made-once.ts';
import { runProgram } from '../support/run-program.ts';
import { trunkline } from '../support/run-trunkline.ts';

const CHART = resolve(import.meta.dirname, '../../deploy/helm/trunkline');
const RENDER = join(import.meta.dirname, 'render.py');
/** The library of Helm 4 and the schemas of Kubernetes; there is no other way to get Helm from a package registry in seconds. */
const TOOLS = ['helm-python-sdk==0.2.2', 'kubernetes-validate==1.37.0'];
const KUBERNETES = ['1.31', '1.37'];
const IN_POD = '/run/secrets/trunkline';

interface Container {
  readonly name: string;
  readonly ports: readonly { readonly name: string }[];
  readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string }[];
  readonly securityContext: object;
  readonly readinessProbe: { readonly httpGet?: { readonly port: string; readonly scheme?: string } };
}
interface Made {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly data: Readonly<Record<string, string>>;
  readonly spec: {
    readonly replicas: number;
    readonly selector: Readonly<Record<string, unknown>>;
    readonly volumeClaimTemplates: readonly { readonly metadata: { readonly name: string } }[];
    readonly template: {
      readonly metadata: { readonly labels: object };
      readonly spec: {
        readonly shareProcessNamespace?: boolean;
        readonly containers: readonly [Container];
        readonly volumes: readonly { readonly name: string }[];
        readonly securityContext: { readonly runAsNonRoot: boolean };
      };
    };
  };
}
interface Rendered {
  readonly findings: readonly string[];
  readonly objects: readonly Made[];
}

async function render(values: readonly object[], kubernetes = KUBERNETES[0]!): Promise<Rendered[]> {
  const folders = await Promise.all(TOOLS.map(pipInstalled));
  const env = { ...process.env, PYTHONPATH: folders.join(':'), PYTHONDONTWRITEBYTECODE: '1' };
  const out = await new Promise<string>((done, fail) => {
    const options = { env, timeout: 120_000, maxBuffer: 1 << 26 };
    const child = execFile('python3', [RENDER, CHART, kubernetes], options, (error, stdout, stderr) =>
      error === null ? done(stdout) : fail(new Error(stderr)),
    );
    child.stdin!.end(JSON.stringify(values));
  });
  return JSON.parse(out) as Rendered[];
}

function named({ objects }: Rendered, kind: string, name: string): Made {
  const found = objects.find((made) => made.kind === kind && made.metadata.name === name);
  assert.ok(found !== undefined, `${kind} ${name}`);
  return found;
}

/** The gateway itself finds no problem in its file. */
async function checkConfig(t: TestContext, rendered: Rendered): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'trunkline-helm-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  for (const key of ['cluster', 'postgresql', 'agent', 'metrics']) writeFileSync(join(folder, key), 'a1b2'.repeat(16));
  for (const key of ['nats', 'other']) writeFileSync(join(folder, key), 'c3d4'.repeat(16));
  mkdirSync(join(folder, 'config'));
  const text = named(rendered, 'ConfigMap', 'demo-trunkline').data['trunkline.yaml']!;
  writeFileSync(join(folder, 'config/trunkline.yaml'), text.replaceAll(IN_POD, folder));
  const checked = await trunkline(['check', 'config/trunkline.yaml'], { cwd: folder });
  assert.equal(checked.code, 0, checked.out + checked.err);
}

for (const kubernetes of KUBERNETES) {
  test(`the chart has no finding of Helm's lint, nor of the schemas of Kubernetes ${kubernetes}`, async () => {
    for (const { findings } of await render([{}, OUTSIDE, MONITORED], kubernetes)) assert.deepEqual(findings, []);
  });
}

const MONITORED = { metrics: { enabled: true, token: true, serviceMonitor: true } };

const CLUSTER = {
  cluster: { user: 'node', password: `\${file:${IN_POD}/nats}`, previousSecret: `\${file:${IN_POD}/other}` },
};

const OUTSIDE = {
  config: {
    mcpServers: { files: { command: 'npx', args: ['-y', 'some-server'] } },
    agents: { me: { key: 'k'.repeat(20) } },
  },
  nodes: 5,
  nats: { enabled: false, urls: ['tls://nats.example:4222'], clusterName: 'staging' },
  ...CLUSTER,
  postgresql: { enabled: false },
  tls: { secretName: 'cert' },
  ingress: { enabled: true, className: 'nginx', host: 'mcp.example.com', tlsSecretName: 'public' },
};

test('three nodes, NATS with three copies, PostgreSQL; no pod as root, no writable root filesystem', async (t) => {
  const [rendered] = await render([{}]);
  const sets = rendered!.objects.filter(({ kind }) => kind === 'StatefulSet');
  assert.deepEqual(
    sets.map(({ metadata, spec }) => [metadata.name, spec.replicas]),
    [
      ['demo-trunkline-nats', 3],
      ['demo-trunkline-postgresql', 1],
      ['demo-trunkline', 3],
    ],
  );
  for (const { spec } of sets) {
    const { containers, volumes, securityContext } = spec.template.spec;
    const [container] = containers;
    assert.equal(securityContext.runAsNonRoot, true);
    assert.deepEqual(container.securityContext, {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    });
    const there = [...volumes, ...spec.volumeClaimTemplates.map(({ metadata }) => metadata)].map(({ name }) => name);
    assert.deepEqual(container.volumeMounts.map(({ name }) => name).sort(), there.sort());
    const port = container.readinessProbe.httpGet?.port;
    assert.ok(port === undefined || container.ports.some(({ name }) => name === port), port);
    assert.deepEqual(spec.selector, { matchLabels: spec.template.metadata.labels });
  }
  const pod = named(rendered!, 'StatefulSet', 'demo-trunkline').spec.template.spec;
  assert.equal(pod.shareProcessNamespace, true, 'process 1 reaps what servers leave behind');
  await checkConfig(t, rendered!);
  const conf = join(mkdtempSync(join(tmpdir(), 'trunkline-helm-')), 'nats.conf');
  t.after(() => rmSync(join(conf, '..'), { recursive: true, force: true }));
  writeFileSync(conf, named(rendered!, 'ConfigMap', 'demo-trunkline-nats').data['nats.conf']!);
  const env = { ...process.env, POD_NAME: 'demo-trunkline-nats-0' };
  const nats = await runProgram(['nats-server', '-t', '-c', conf], { env });
  assert.equal(nats.code, 0, nats.err);
});

test('metrics have a port on every node, a token, and a ServiceMonitor for the Prometheus operator', async (t) => {
  const [rendered, open] = await render([MONITORED, { metrics: { enabled: true } }]);
  await checkConfig(t, rendered!);
  const config = named(rendered!, 'ConfigMap', 'demo-trunkline').data['trunkline.yaml']!;
  assert.match(config, /metrics:\n {2}listen: 0\.0\.0\.0:9464\n {2}token: \$\{file:/);
  const [{ ports }] = named(rendered!, 'StatefulSet', 'demo-trunkline').spec.template.spec.containers;
  assert.ok(ports.some(({ name }) => name === 'metrics'));
  const monitor = JSON.stringify(named(rendered!, 'ServiceMonitor', 'demo-trunkline').spec);
  assert.match(monitor, /"port":"metrics"/);
  assert.match(monitor, /"credentials":\{"key":"metrics","name":"trunkline"\}|"name":"trunkline","key":"metrics"/);
  assert.ok(!open!.objects.some(({ kind }) => kind === 'ServiceMonitor'));
  assert.doesNotMatch(named(open!, 'ConfigMap', 'demo-trunkline').data['trunkline.yaml']!, /token/);
});

test('external NATS and PostgreSQL, a secret that changes, certificates and an Ingress', async (t) => {
  const [rendered, changing] = await render([OUTSIDE, CLUSTER]);
  await checkConfig(t, changing!);
  const { objects } = rendered!;
  assert.deepEqual(
    objects.filter(({ kind }) => kind === 'StatefulSet').map(({ metadata }) => metadata.name),
    ['demo-trunkline'],
  );
  const [container] = named(rendered!, 'StatefulSet', 'demo-trunkline').spec.template.spec.containers;
  assert.equal(container.readinessProbe.httpGet?.scheme, 'HTTPS');
  assert.ok(container.volumeMounts.some(({ mountPath }) => mountPath === '/run/secrets/tls'));
  const config = named(rendered!, 'ConfigMap', 'demo-trunkline').data['trunkline.yaml']!;
  assert.match(config, /- mcp\.example\.com\n/);
  assert.match(config, /name: staging\n *nats:\n *- tls:\/\/nats\.example:4222\n/);
  assert.match(config, /previousSecret: \$\{file:.*\/other\}\n *secret: \$\{file:.*\/cluster\}\n *user: node\n/);
  assert.doesNotMatch(config, /store:/);
  named(rendered!, 'Ingress', 'demo-trunkline');
});

test('values that cannot work are refused, with the reason', async () => {
  const wrong = [
    { nats: { enabled: false } },
    { config: { cluster: { nats: 'nats://x' } } },
    { cluster: { secret: 's'.repeat(32) } },
    { ingress: { enabled: true } },
    { nodes: 0 },
    { metrics: { serviceMonitor: true } },
    { replicas: 3 },
  ];
  const answers = await render(wrong);
  for (const [index, { findings }] of answers.entries())
    assert.match(findings.join('\n'), /values don't meet the specifications/, JSON.stringify(wrong[index]));
});
