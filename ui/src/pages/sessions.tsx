import './sessions/sessions.css';
import { useComputed } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { endSession, type Session, startRecording } from '../api/operations.ts';
import { Action } from '../parts/action.tsx';
import { Empty, Gone, Unread } from '../parts/notes.tsx';
import { ago, span } from '../parts/reading.ts';
import { Status } from '../parts/status.tsx';
import { Table } from '../parts/table.tsx';
import { href, navigate, route } from '../router.ts';
import { RecordingList } from './sessions/recording-list.tsx';
import {
  clientOf,
  followSessions,
  recordingsReader,
  sessionCount,
  sessions,
  sessionsReader,
} from './sessions/sessions-store.ts';

/** The open sessions of clients, one of them in detail, and the recordings. */
export default function Sessions() {
  useEffect(followSessions, []);
  const chosen = useComputed(() => sessions.value?.find(({ label }) => label === route.value.rest[0]) ?? null);
  if (sessions.value === null) return <Unread of={sessionsReader} what="sessions" />;
  const now = Date.now();
  const [label] = route.value.rest;
  return (
    <>
      <h1>Sessions</h1>
      <Table
        label="Sessions"
        rows={sessions.value}
        keyOf={({ label }) => label}
        selected={chosen.value?.label}
        onOpen={({ label }) => navigate(['sessions', label])}
        columns={[
          {
            id: 'client',
            title: 'Client',
            width: 'minmax(8rem, 2fr)',
            cell: (session) => <a href={href(['sessions', session.label])}>{clientOf(session)}</a>,
            order: clientOf,
          },
          {
            id: 'principal',
            title: 'Principal',
            width: 'minmax(6rem, 1fr)',
            wideOnly: true,
            cell: ({ principal }) => principal,
            order: ({ principal }) => principal,
          },
          {
            id: 'endpoint',
            title: 'Endpoint',
            width: 'minmax(8rem, 2fr)',
            wideOnly: true,
            cell: ({ endpoint }) => <code>{endpoint}</code>,
            order: ({ endpoint }) => endpoint,
          },
          {
            id: 'revision',
            title: 'Revision',
            width: '7rem',
            cell: ({ revision }) => revision,
            order: ({ revision }) => revision,
          },
          {
            id: 'servers',
            title: 'Servers',
            width: 'minmax(6rem, 2fr)',
            wideOnly: true,
            cell: ({ servers }) => servers.join(', ') || '–',
          },
          {
            id: 'idle',
            title: 'Idle',
            width: '5rem',
            align: 'end',
            cell: ({ lastSeenAt }) => span(now - Date.parse(lastSeenAt)),
            order: ({ lastSeenAt }) => lastSeenAt,
          },
        ]}
        empty={
          <Empty title="No open sessions">
            <p>
              A client that connects appears here. Clients of 2026-07-28 have no sessions; their requests are in the
              timeline, and they can be recorded by name.
            </p>
          </Empty>
        }
      />
      {sessionCount.value > sessions.value.length ? (
        <p class="soft">{`${sessions.value.length} of ${sessionCount.value} sessions: those of this node, and those used last.`}</p>
      ) : null}
      {chosen.value === null ? null : <OneSession session={chosen.value} now={now} />}
      {chosen.value !== null || label === undefined ? null : (
        <Gone what={`The session ${label}`}>
          It has ended, or another gateway has it. <a href={`#/timeline?filter=session:${label}`}>Its calls</a> may
          still be in the timeline.
        </Gone>
      )}
      <RecordingList />
    </>
  );
}

function OneSession({ session, now }: { readonly session: Session; readonly now: number }) {
  const { label, principal, endpoint, revision, capabilities, servers, createdAt, lastSeenAt, here } = session;
  return (
    <section class="panel" aria-label={`Session ${label}`}>
      <h2>{clientOf(session)}</h2>
      <dl class="facts">
        <dt>Session</dt>
        <dd>
          <code>{label}</code>{' '}
          <Status tone={here ? 'good' : 'rest'} text={here ? 'in use at this node' : 'not in use at this node'} />
        </dd>
        <dt>Principal</dt>
        <dd>{principal}</dd>
        <dt>Endpoint</dt>
        <dd>
          <code>{endpoint}</code>, {revision} (stateful)
        </dd>
        <dt>Capabilities</dt>
        <dd>
          <code>{JSON.stringify(capabilities)}</code>
        </dd>
        <dt>Servers</dt>
        <dd>{servers.length === 0 ? 'none of its own' : servers.join(', ')}</dd>
        <dt>Opened</dt>
        <dd>{`${ago(createdAt, now)}; idle for ${span(now - Date.parse(lastSeenAt))}`}</dd>
      </dl>
      <div class="actions">
        <Action
          label="Record it"
          command={`trunkline record --session ${label} -o session.jsonl`}
          run={() => startRecording({ body: { session: label } })}
          done={({ id }) => `Recording ${id} has begun`}
          after={recordingsReader.again}
        />
        <Action
          label="End session"
          careful
          command={`trunkline sessions end ${label}`}
          run={() => endSession({ name: label })}
          done="The session has ended"
          after={() => {
            navigate(['sessions']);
            sessionsReader.again();
          }}
        />
      </div>
    </section>
  );
}
