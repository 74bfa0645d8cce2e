import { useSignal } from '@preact/signals';
import { countedOrNo } from '../../../../src/model/counted.ts';
import { type Recording, type Replay, replayRecording, writeReplayTest } from '../../api/operations.ts';
import { Action } from '../../parts/action.tsx';
import { Command, shellWord } from '../../parts/command.tsx';
import { Failure } from '../../parts/notes.tsx';
import { serverList } from '../../servers.ts';
import { download } from './download.ts';

/** Replays a recording against a server of this gateway and shows where the answers differ. */
export function ReplayForm({ recording }: { readonly recording: Recording }) {
  const { id, servers } = recording;
  const of = useSignal(servers[0] ?? '');
  const against = useSignal(servers[0] ?? '');
  const ignored = useSignal('');
  const busy = useSignal(false);
  const answer = useSignal<Replay | Error | null>(null);
  const ignore = ignored.value.split('\n').filter((line) => line.trim() !== '');
  const body = { recording: id, of: of.value, server: against.value, ignore };
  const run = async (): Promise<void> => {
    busy.value = true;
    try {
      answer.value = await replayRecording({ body });
    } catch (error) {
      answer.value = error as Error;
    }
    busy.value = false;
  };
  const command = [
    `trunkline replay ${id}.jsonl --server ${shellWord(against.value)}`,
    servers.length > 1 ? ` --of ${shellWord(of.value)}` : '',
    ...ignore.map((path) => ` --ignore ${shellWord(path)}`),
  ].join('');
  const test = `${id}.test.mjs`;
  if (servers.length === 0) return <p class="soft">No server was called in it: there is nothing to replay.</p>;
  return (
    <section aria-label={`Replay ${id}`}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void run();
        }}
      >
        <label>
          Recorded server
          <select value={of.value} onChange={(event) => (of.value = event.currentTarget.value)}>
            {servers.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
        <label>
          Replay against
          <select value={against.value} onChange={(event) => (against.value = event.currentTarget.value)}>
            {serverList.value.map(({ name }) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
        <label>
          Places that may differ, one a line
          <textarea
            rows={2}
            placeholder="$.result.content[*].text"
            value={ignored.value}
            onInput={(event) => (ignored.value = event.currentTarget.value)}
          />
        </label>
        <p class="soft">The recorded tools run again, as the operator.</p>
        <div class="actions">
          <div class="action">
            <button type="submit" disabled={busy.value} aria-busy={busy.value}>
              {busy.value ? 'Replay…' : 'Replay'}
            </button>
            <Command text={command} />
          </div>
          <Action
            label="Write a test"
            command={`${command} --test ${test}`}
            run={async () => download(test, (await writeReplayTest({ body })).text)}
            done={`${test} is downloaded`}
          />
        </div>
      </form>
      <p class="soft">
        The test asks the server at this gateway as a client does, with the key in <code>TRUNKLINE_KEY</code> if it is
        set, and expects the recorded answers. Run it with <code>node --test {test}</code>; it needs{' '}
        <code>npm install @modelcontextprotocol/client</code>.
      </p>
      {answer.value instanceof Error ? <Failure what="It could not be replayed" error={answer.value} /> : null}
      {answer.value !== null && !(answer.value instanceof Error) ? <Differences replay={answer.value} /> : null}
    </section>
  );
}

function Differences({ replay: { server, replayed, skipped, differences } }: { readonly replay: Replay }) {
  const count = differences.length;
  return (
    <div class={`note tone-${count === 0 ? 'good' : 'warn'}`} role="status">
      <h2>{`${replayed} answers of ${server} compared: ${countedOrNo(count, 'difference')}`}</h2>
      <ol class="differences">
        {differences.map(({ step, request, path, before, after }) => (
          <li key={`${step} ${request} ${path}`}>
            <b>{step === 0 ? request : `${step} ${request}`}</b> <code>{path}</code>
            <pre class="was">{`− ${before ?? '(nothing)'}`}</pre>
            <pre class="is">{`+ ${after ?? '(nothing)'}`}</pre>
          </li>
        ))}
      </ol>
      {skipped.length === 0 ? null : <p>{`Not replayed: ${skipped.join('; ')}`}</p>}
    </div>
  );
}
