import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ServerNews } from '../../model/ports.ts';
import type { ServerState, StateChange } from '../../model/server-state.ts';
import { ServerStory, StoryPart } from './server-story.ts';

function step(from: ServerState, to: ServerState, reason: string | null = null, at = 0): StateChange {
  return { from, to, reason, failure: null, challenge: null, at };
}

function bench(): { readonly story: ServerStory; readonly reported: string[] } {
  const reported: string[] = [];
  const news: ServerNews = {
    added: (server) => void reported.push(`added ${server}`),
    moved: (_server, { from, to, reason }) =>
      void reported.push(`${from} ${to}${reason === null ? '' : `: ${reason}`}`),
    healthTurned: (_server, reason) => void reported.push(`health ${reason}`),
    recovery: (_server, step) => void reported.push(`recovery ${step}`),
    loginNeeded: () => {},
    listItemInvalid: (_server, { item, reason }) => void reported.push(`invalid ${item}: ${reason}`),
    replaced: () => void reported.push('replaced'),
    removed: (server) => void reported.push(`removed ${server}`),
  };
  return { story: new ServerStory('a', news), reported };
}

test('check:J1 the story keeps the steps of a server, bounded, oldest first', () => {
  const { story } = bench();
  const part = new StoryPart();
  story.turnTo(part, 0);
  for (let i = 0; i < 120; i++)
    story.moved(part, i % 2 === 0 ? step('failed', 'starting', null, i) : step('starting', 'failed', `${i}`, i));
  assert.equal(story.changes.length, 50);
  assert.deepEqual([story.changes[0]?.at, story.changes[49]?.at], [70, 119]);
});

test('S3.13 while a replacement starts, status shows the current definition, and the change is one step', () => {
  const { story, reported } = bench();
  const old = new StoryPart();
  story.turnTo(old, 0);
  story.moved(old, step('unknown', 'starting'));
  story.moved(old, step('starting', 'running'));
  const next = new StoryPart();
  story.moved(next, step('unknown', 'starting'));
  story.healthTurned(next, 'silent');
  story.healthTurned(old, 'three calls failed');
  story.moved(next, step('starting', 'failed', 'no such command'));
  story.turnTo(next, 7);
  story.moved(old, step('running', 'stopping'));
  story.moved(old, step('stopping', 'stopped'));
  story.moved(next, step('failed', 'starting'));
  story.end();
  story.moved(next, step('starting', 'stopping'));
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
  const [old, next] = [new StoryPart(), new StoryPart()];
  story.turnTo(old, 0);
  story.moved(old, step('unknown', 'starting'));
  story.moved(old, step('starting', 'running'));
  story.moved(next, step('unknown', 'starting'));
  story.moved(next, step('starting', 'running'));
  story.turnTo(next, 0);
  assert.deepEqual(reported.slice(3), ['replaced']);
});
