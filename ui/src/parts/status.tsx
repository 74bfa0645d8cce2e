import type { Node, Server } from '../api/operations.ts';
import './status.css';

export type Tone = 'good' | 'busy' | 'warn' | 'bad' | 'rest';

const TONES: Readonly<Record<Server['state'], Tone>> = {
  unknown: 'rest',
  starting: 'busy',
  running: 'good',
  connected: 'good',
  stopping: 'busy',
  stopped: 'rest',
  disconnected: 'rest',
  degraded: 'warn',
  failed: 'bad',
  unreachable: 'bad',
  auth_required: 'warn',
  misconfigured: 'bad',
  defect: 'bad',
  suspended: 'rest',
};

export const NODE_TONES: Readonly<Record<Node['state'], Tone>> = {
  joining: 'busy',
  ready: 'good',
  fenced: 'bad',
  draining: 'warn',
};

export function toneOf({ state, health }: Pick<Server, 'state' | 'health'>): Tone {
  const tone = TONES[state];
  return tone === 'good' && health === 'unhealthy' ? 'warn' : tone;
}

/** A word with a mark in the colour and shape of its tone. */
export function Status({ tone, text }: { readonly tone: Tone; readonly text: string }) {
  return (
    <span class={`status tone-${tone}`}>
      <span class="mark" aria-hidden="true" />
      {text}
    </span>
  );
}

export function ServerStatus({ server }: { readonly server: Pick<Server, 'state' | 'health'> }) {
  const { state, health } = server;
  const text = state.replaceAll('_', ' ');
  return (
    <Status
      tone={toneOf(server)}
      text={health === 'unhealthy' && toneOf(server) === 'warn' ? `${text}, unhealthy` : text}
    />
  );
}
