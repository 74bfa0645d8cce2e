import { Component, type ComponentChildren } from 'preact';
import { Failure } from './notes.tsx';

interface BoundaryProps {
  readonly what: string;
  /** A changed value clears the failure. */
  readonly of: unknown;
  readonly children: ComponentChildren;
}

/** Shows a failure in the place of what throws while it is drawn, instead of nothing. */
export class Boundary extends Component<BoundaryProps, { readonly error: unknown }> {
  override state: { readonly error: unknown } = { error: null };

  static override getDerivedStateFromError(error: unknown): { readonly error: unknown } {
    return { error: error ?? new Error('nothing was thrown') };
  }

  override componentDidUpdate(before: BoundaryProps): void {
    if (before.of !== this.props.of && this.state.error !== null) this.setState({ error: null });
  }

  override render() {
    const { what, children } = this.props;
    if (this.state.error === null) return children;
    return <Failure what={what} error={this.state.error} again={() => this.setState({ error: null })} />;
  }
}
