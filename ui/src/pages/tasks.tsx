import { cancelTask, listTasks, type Task } from '../api/operations.ts';
import { Action } from '../parts/action.tsx';
import { Command } from '../parts/command.tsx';
import { Empty, Gone, Unread } from '../parts/notes.tsx';
import { ago, useReading } from '../parts/reading.ts';
import { Status, type Tone } from '../parts/status.tsx';
import { Table } from '../parts/table.tsx';
import { href, navigate, route } from '../router.ts';
import './operating.css';

const TONES: Readonly<Record<Task['status'], Tone>> = {
  working: 'busy',
  input_required: 'warn',
  completed: 'good',
  failed: 'bad',
  cancelled: 'rest',
};
const ENDED: readonly Task['status'][] = ['completed', 'failed', 'cancelled'];

export default function Tasks() {
  const found = useReading(listTasks, '', { lists: ['tasks'] });
  if (found.value.value === null) return <Unread of={found} what="tasks" />;
  const tasks = found.value.value.tasks.toReversed();
  const [key] = route.value.rest;
  const chosen = tasks.find((task) => task.key === key);
  return (
    <>
      <h1>Tasks</h1>
      <p>
        Tasks started by tool calls, on all nodes. <Command text="trunkline tasks" />
      </p>
      <Table
        label="Tasks, the newest first"
        rows={tasks}
        keyOf={(task) => task.key}
        selected={key}
        onOpen={(task) => navigate(['tasks', task.key])}
        columns={[
          {
            id: 'status',
            title: 'State',
            width: '9rem',
            cell: ({ status }) => <Status tone={TONES[status]} text={status.replace('_', ' ')} />,
            order: ({ status }) => status,
          },
          {
            id: 'server',
            title: 'Server',
            width: 'minmax(6rem, 1fr)',
            cell: ({ server }) => server,
            order: ({ server }) => server,
          },
          {
            id: 'principal',
            title: 'Principal',
            width: 'minmax(6rem, 1fr)',
            cell: ({ principal }) => principal,
            order: ({ principal }) => principal,
          },
          {
            id: 'client',
            title: 'Client',
            width: 'minmax(6rem, 1fr)',
            wideOnly: true,
            cell: ({ client }) => client ?? '',
          },
          {
            id: 'age',
            title: 'Begun',
            width: '7rem',
            wideOnly: true,
            cell: ({ startedAt }) => ago(startedAt),
            order: ({ startedAt }) => startedAt,
          },
          {
            id: 'expiry',
            title: 'Expires',
            width: '7rem',
            wideOnly: true,
            cell: ({ expiresAt }) => ago(expiresAt),
            order: ({ expiresAt }) => expiresAt,
          },
          {
            id: 'message',
            title: 'Message',
            width: 'minmax(8rem, 2fr)',
            wideOnly: true,
            cell: ({ message }) => message ?? '',
          },
        ]}
        empty={
          <Empty title="There are no tasks">
            <p>A tool that takes long may answer with a task (2025-11-25, and the extension of 2026-07-28).</p>
          </Empty>
        }
      />
      {chosen === undefined ? null : <Details task={chosen} after={found.again} />}
      {chosen !== undefined || key === undefined ? null : (
        <Gone what={`The task ${key}`}>It has expired: a task is kept for the time that its call asked for.</Gone>
      )}
    </>
  );
}

function Details({ task, after }: { task: Task; after: () => void }) {
  const { key, server, principal, client, session, era, status, message, startedAt, expiresAt, ttlMs } = task;
  return (
    <section class="panel" aria-label="Task">
      <h2>
        Task of {server} <Status tone={TONES[status]} text={status.replace('_', ' ')} />
      </h2>
      <dl class="facts">
        <dt>Key</dt>
        <dd>
          <code>{key}</code>
        </dd>
        <dt>Principal</dt>
        <dd>
          {principal}
          {client === null ? '' : ` with ${client}`}
        </dd>
        <dt>Session</dt>
        <dd>{session === null ? 'none' : <a href={href(['sessions', session])}>{session}</a>}</dd>
        <dt>Era</dt>
        <dd>{era ?? 'the gateway made the task'}</dd>
        <dt>Begun</dt>
        <dd>{startedAt}</dd>
        <dt>Expires</dt>
        <dd>
          {expiresAt}
          {ttlMs === null ? '' : ` (kept for ${Math.round(ttlMs / 1_000)} s)`}
        </dd>
        {message === null ? null : (
          <>
            <dt>Message</dt>
            <dd>{message}</dd>
          </>
        )}
      </dl>
      <div class="actions">
        <Action
          label="Cancel"
          command={`trunkline tasks cancel ${key}`}
          careful
          disabled={ENDED.includes(status)}
          run={() => cancelTask({ name: key })}
          done="The task is cancelled"
          after={after}
        />
      </div>
    </section>
  );
}
