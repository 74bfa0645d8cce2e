import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ServerChangeListener } from '../../model/ports.ts';
import type { ServerState, StateChange } from '../../model/server-state.ts';
import { LastState, ServerHistory } from './server-history.ts';

function step(from: ServerState, to: ServerState, reason: string | null = null, at = 0): StateChange {
  return { from, to, reason, failure: null, challenge: null, at };
}

function bench(): { readonly story: ServerHistory; readonly reported: string[] } {
  const reported: string[] = [];
  const news: ServerChangeListener = {
    added: (server) => void reported.push(`added ${server}`),
    stateChanged: (_server, { from, to, reason }) =>
      void reported.push(`${from} ${to}${reason === null ? '' : `: ${reason}`}`),
    healthChanged: (_server, reason) => void reported.push(`health ${reason}`),
    recovery: (_server, step) => void reported.push(`recovery ${step}`),
    loginNeeded: () => {},
    listItemInvalid: (_server, { item, reason }) => void reported.push(`invalid ${item}: ${reason}`),
    replaced: () => void reported.push('replaced'),
    removed: (server) => void reported.push(`removed ${server}`),
  };
  return { story: new ServerHistory('a', news), reported };
}

test('check:J1 the history keeps the last 50 steps of a server, oldest first', () => {
  const { story } = bench();
  const part = new LastState();
  story.setCurrent(part, 0);
  for (let i = 0; i < 120; i++)
    story.stateChanged(part, i % 2 === 0 ? step('failed', 'starting', null, i) : step('starting', 'failed', `${i}`, i));
  assert.equal(story.changes.length, 50);
  assert.deepEqual([story.changes[0]?.at, story.changes[49]?.at], [70, 119]);
});

test('S3.13 while a replacement starts, status shows the current definition, and the change is one step', () => {
  const { story, reported } = bench();
  const old = new LastState();
  story.setCurrent(old, 0);
  story.stateChanged(old, step('unknown', 'starting'));
  story.stateChanged(old, step('starting', 'running'));
  const next = new LastState();
  story.stateChanged(next, step('unknown', 'starting'));
  story.healthChanged(next, 'silent');
  story.healthChanged(old, 'three calls failed');
  story.stateChanged(next, step('starting', 'failed', 'no such command'));
  story.setCurrent(next, 7);
  story.stateChanged(old, step('running', 'stopping'));
  story.stateChanged(old, step('stopping', 'stopped'));
  story.stateChanged(next, step('failed', 'starting'));
  story.end();
  story.stateChanged(next, step('starting', 'stopping'));
  assert.deepEqual(reported, [
    'added a',
    'unknown starting',
    'starting running',
    'health three calls failed',
    'replaced',
    'running failed: its definition has changed; no such command',
    'failed starting',
    'removed a',
  ]);
  let state: ServerState = 'unknown';
  for (const change of story.changes) {
    assert.equal(change.from, state);
    state = change.to;
  }
});

test('a replacement that is up in place of the old one is an event, not a step', () => {
  const { story, reported } = bench();
  const [old, next] = [new LastState(), new LastState()];
  story.setCurrent(old, 0);
  story.stateChanged(old, step('unknown', 'starting'));
  story.stateChanged(old, step('starting', 'running'));
  story.stateChanged(next, step('unknown', 'starting'));
  story.stateChanged(next, step('starting', 'running'));
  story.setCurrent(next, 0);
  assert.deepEqual(reported.slice(3), ['replaced']);
});
