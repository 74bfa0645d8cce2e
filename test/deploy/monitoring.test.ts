import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { parse } from 'yaml';
import { HintingServer } from '../fixtures/http/hinting.ts';
import { until } from '../support/cluster-processes.ts';
import { manySided } from '../support/many-sided.ts';
import { RunningGateway } from '../support/running-gateway.ts';
import { WireClient } from '../support/wire-client.ts';

const FOLDER = resolve(import.meta.dirname, '../../deploy/monitoring');
const RULES = join(FOLDER, 'prometheus-alerts.yaml');

interface Panel {
  readonly id: number;
  readonly title: string;
  readonly type: string;
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly targets?: readonly { readonly expr: string; readonly legendFormat: string }[];
}

function promtool(args: readonly string[], input = ''): string {
  const { status, stdout, stderr, error } = spawnSync('promtool', args, { input, encoding: 'utf8' });
  if (error !== undefined) throw error;
  return status === 0 ? '' : `${stdout}${stderr}`;
}

function panels(): readonly Panel[] {
  return (JSON.parse(readFileSync(join(FOLDER, 'grafana-dashboard.json'), 'utf8')) as { panels: Panel[] }).panels;
}

/** As Grafana fills them in. */
function filled(expr: string): string {
  return expr
    .replaceAll(/\$(?:instance|server)/g, '.*')
    .replaceAll('$__rate_interval', '5m')
    .replaceAll('$__range', '1h');
}

describe('metrics, alerts and dashboard for Prometheus and Grafana', () => {
  const folder = mkdtempSync(join(tmpdir(), 'trunkline-monitoring-'));
  let gateway: RunningGateway;
  let remote: HintingServer;
  let exposition = '';

  before(async () => {
    remote = await HintingServer.start();
    remote.say.set('tools/list', () => '"tools":[],"ttlMs":0,"cacheScope":"public"');
    const mcpServers = { local: manySided('local'), remote: { type: 'http', url: remote.server.url } };
    gateway = await RunningGateway.start({ config: { mcpServers } });
    await gateway.ready();
    const client = await WireClient.open(gateway.mcpUrl);
    await client.callText('local__echo', { text: 'x' });
    await client.request('tools/call', { name: 'local__no "such\\tool', arguments: {} });
    await fetch(client.url, { method: 'DELETE', headers: { 'mcp-session-id': client.sessionId! } });
    await until(async () => {
      exposition = await gateway.metrics();
      return exposition.includes('mcp_client_session_duration_seconds_count');
    }, 'the session with the server to end');
  });
  after(async () => {
    await gateway.dispose();
    await remote.stop();
    rmSync(folder, { recursive: true });
  });

  test('promtool reports no problem of the metrics', () => {
    assert.match(exposition, /gen_ai_tool_name="echo"/);
    for (const name of ['client_operation', 'server_operation', 'client_session', 'server_session']) {
      assert.match(exposition, new RegExp(`^mcp_${name}_duration_seconds_count\\{.*\\} [1-9]`, 'm'));
    }
    assert.equal(promtool(['check', 'metrics'], exposition), '');
  });

  test('every expression of dashboard and alerts parses, and every metric and label in it exists', () => {
    assert.equal(promtool(['check', 'rules', RULES]), '');
    const rules = parse(readFileSync(RULES, 'utf8')) as { groups: { rules: { alert: string; expr: string }[] }[] };
    const ofDashboard = panels().flatMap(({ title, targets = [] }) => targets.map(({ expr }) => ({ title, expr })));
    const record = ofDashboard.map(({ expr }, i) => ({ record: `panel:${i}`, expr: filled(expr) }));
    const file = join(folder, 'rules.yaml');
    writeFileSync(file, JSON.stringify({ groups: [{ name: 'dashboard', rules: record }] }));
    assert.equal(promtool(['check', 'rules', file]), '');
    const families = new Map(
      [...exposition.matchAll(/^# TYPE (\S+) (\S+)$/gm)].flatMap(([, name, type]) =>
        (type === 'histogram' ? ['_bucket', '_count', '_sum'] : ['']).map((end) => [`${name}${end}`, name!]),
      ),
    );
    const ofAlerts = rules.groups.flatMap((group) => group.rules);
    assert.ok(record.length > 25 && ofAlerts.length > 10);
    for (const { expr } of [...record, ...ofAlerts]) {
      const names = expr.match(/\b(?:mcp|trunkline|process)_[a-z_]+(?=[{[\s)])/g) ?? [];
      assert.ok(names.length > 0 || expr.startsWith('up{'), expr);
      for (const name of names.filter((one) => !/^mcp_(?:method_name|protocol_version)$/.test(one))) {
        assert.ok(families.has(name), `${name} in ${expr}`);
      }
    }
  });

  test('the panels of the dashboard do not overlap, and their ids are unique', () => {
    const all = panels();
    assert.equal(new Set(all.map(({ id }) => id)).size, all.length);
    const taken = new Set<string>();
    for (const { title, gridPos } of all) {
      for (let x = gridPos.x; x < gridPos.x + gridPos.w; x++) {
        for (let y = gridPos.y; y < gridPos.y + gridPos.h; y++) {
          assert.ok(x < 24 && !taken.has(`${x},${y}`), title);
          taken.add(`${x},${y}`);
        }
      }
    }
  });
});
