import { useSignal } from '@preact/signals';
import {
  deleteRecording,
  getRecording,
  type Recording,
  type Server,
  startRecording,
  stopRecording,
} from '../../api/operations.ts';
import { Action } from '../../parts/action.tsx';
import { shellWord } from '../../parts/command.tsx';
import { Empty, NotAnswered, Unread } from '../../parts/notes.tsx';
import { Status } from '../../parts/status.tsx';
import { serverList } from '../../servers.ts';
import { download } from './download.ts';
import { ReplayForm } from './replay-form.tsx';
import { recordings, recordingsReader, silent } from './sessions-store.ts';

/** What was recorded, and a form that records what comes next. */
export function RecordingList() {
  return (
    <section class="panel" aria-labelledby="recordings">
      <h2 id="recordings">Recordings</h2>
      <NotAnswered nodes={silent.value} again={recordingsReader.again} />
      <NextRecording servers={serverList.value} />
      {recordings.value === null ? (
        <Unread of={recordingsReader} what="recordings" />
      ) : recordings.value.length === 0 ? (
        <Empty title="Nothing is recorded">
          <p>Open a session above, or name a client or server whose next messages are to be kept.</p>
        </Empty>
      ) : (
        recordings.value.map((recording) => <OneRecording key={recording.id} recording={recording} />)
      )}
    </section>
  );
}

function NextRecording({ servers }: { readonly servers: readonly Server[] }) {
  const client = useSignal('');
  const server = useSignal('');
  const named = client.value !== '' || server.value !== '';
  const words = [
    'trunkline record',
    client.value === '' ? '' : ` --client ${shellWord(client.value)}`,
    server.value === '' ? '' : ` --server ${shellWord(server.value)}`,
    ' -o session.jsonl',
  ];
  return (
    <div class="toolbar">
      <label>
        Next session of client{' '}
        <input
          value={client.value}
          placeholder="claude-code"
          onInput={(event) => (client.value = event.currentTarget.value)}
        />
      </label>
      <label>
        Server{' '}
        <select value={server.value} onChange={(event) => (server.value = event.currentTarget.value)}>
          <option value="">any</option>
          {servers.map(({ name }) => (
            <option key={name} value={name}>
              {name}
            </option>
          ))}
        </select>
      </label>
      <Action
        label="Record"
        command={words.join('')}
        disabled={!named}
        run={() => startRecording({ body: { client: client.value || null, server: server.value || null } })}
        done={({ id }) => `Recording ${id} waits for messages`}
        after={recordingsReader.again}
      />
    </div>
  );
}

function OneRecording({ recording }: { readonly recording: Recording }) {
  const { id, nodes, state, reason, session, client, principal, server, entries, bytes, servers } = recording;
  const target = [session, client, principal, server].filter((one) => one !== null).join(' ');
  const replays = useSignal(false);
  return (
    <article class="recording" aria-label={`Recording ${id}`}>
      <p>
        <b>{id}</b> {target}{' '}
        {nodes.map((node) => (
          <span key={node} class="badge">
            {node}
          </span>
        ))}{' '}
        <Status
          tone={state === 'stopped' ? 'rest' : state === 'waiting' ? 'busy' : 'good'}
          text={reason === null ? state : `${state}: ${reason}`}
        />{' '}
        <span class="soft">{`${entries} messages, ${Math.ceil(bytes / 1024)} KiB, ${servers.join(', ') || 'no server yet'}`}</span>
      </p>
      <div class="actions">
        {state === 'stopped' ? null : (
          <Action
            label="Stop"
            command={`trunkline record stop ${id}`}
            run={() => stopRecording({ name: id })}
            done={`Recording ${id} has stopped`}
            after={recordingsReader.again}
          />
        )}
        <Action
          label="Download"
          command={`trunkline record get ${id} -o ${id}.jsonl`}
          run={async () => {
            const read = await getRecording({ name: id });
            download(`${id}.jsonl`, read.jsonl);
            return read;
          }}
          done={({ silent: nodes = [] }) =>
            nodes.length === 0
              ? `${id}.jsonl is downloaded`
              : `${id}.jsonl is downloaded, without the parts of ${nodes.join(', ')}`
          }
        />
        <Action
          label="Delete"
          careful
          command={`trunkline record delete ${id}`}
          run={() => deleteRecording({ name: id })}
          done={`Recording ${id} is deleted`}
          after={recordingsReader.again}
        />
        {state === 'stopped' ? (
          <button type="button" aria-expanded={replays.value} onClick={() => (replays.value = !replays.value)}>
            Replay against…
          </button>
        ) : null}
      </div>
      {replays.value ? <ReplayForm recording={recording} /> : null}
    </article>
  );
}
