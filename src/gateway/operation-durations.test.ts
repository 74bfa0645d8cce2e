import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Exchange } from '../model/exchange.ts';
import type { Capability } from '../model/server-catalog.ts';
import { request } from '../protocol/compose.ts';
import { Metrics } from '../telemetry/metrics.ts';
import { OperationDurations } from './operation-durations.ts';

const LISTED = {} as Capability;

function rig() {
  const metrics = new Metrics();
  const durations = new OperationDurations(metrics);
  const observe = (
    method: string,
    server: string,
    name: string | null,
    listed: boolean,
    error: string | null = null,
  ) => {
    const target = name === null ? {} : { target: { server, name, definition: listed ? LISTED : null } };
    const exchange = { request: request(method, '1', '{}', 'stateful'), ...target } as Exchange;
    durations.observe(exchange, server, error, 0.01);
  };
  const counts = (): string[] => {
    const lines = metrics.exposition().split('\n');
    return lines.filter((line) => line.includes('_count{')).map((line) => line.replace(/^.*_count/, ''));
  };
  return { observe, counts };
}

test('requests are counted by method, server, listed tool and kind of end', () => {
  const { observe, counts } = rig();
  for (const error of [null, null, 'tool_error', '53003', '-32768']) observe('tools/call', 'a', 'echo', true, error);
  observe('tools/call', 'a', 'made-up', false);
  observe('tools/call', '', null, false, '-32602');
  observe('tools/list', 'a', null, false);
  observe('x/made-up', 'a', null, false);
  const call = 'mcp_method_name="tools/call",error_type';
  assert.deepEqual(counts(), [
    `{${call}="",server="a",gen_ai_tool_name="echo"} 2`,
    `{${call}="tool_error",server="a",gen_ai_tool_name="echo"} 1`,
    `{${call}="53003",server="a",gen_ai_tool_name="echo"} 1`,
    `{${call}="_OTHER",server="a",gen_ai_tool_name="echo"} 1`,
    `{${call}="",server="a",gen_ai_tool_name="_OTHER"} 1`,
    `{${call}="-32602",server="",gen_ai_tool_name=""} 1`,
    '{mcp_method_name="tools/list",error_type="",server="a",gen_ai_tool_name=""} 1',
    '{mcp_method_name="_OTHER",error_type="",server="a",gen_ai_tool_name=""} 1',
  ]);
});

test('neither callers nor servers can create more series than the limits allow', () => {
  const { observe, counts } = rig();
  for (let i = 0; i < 5_000; i++) {
    observe('tools/call', 'a', `t${i}`, true, `-32${String(i).padStart(3, '0')}`);
    observe('tools/call', 'b', `t${i}`, false);
    observe(`m${i}`, `s${i}`, null, false);
  }
  const series = counts();
  const of = (server: string) => series.filter((line) => line.includes(`server="${server}"`)).length;
  assert.ok(of('a') <= 200 + 20, String(of('a')));
  assert.equal(of('b'), 1);
  assert.ok(series.length <= 1_000 + 230, String(series.length));
});
