//! Statistics and TD errors of pieces, joined to those of all rows.

use crate::base::torch::read;
use crate::base::{Result, Stats, Stream};
use crate::engines::backend::not_a_number;
use crate::engines::together::Together;
use crate::engines::torch::graph::TorchGraph;
use crate::loss::{EQUAL, Graph, Reduction, Stat};
use tch::{Device, Kind, Tensor};

/// Gradient, statistics and TD errors of one piece, and the random stream of noisy layers after it.
pub(super) struct Piece {
    pub(super) gradient: Tensor,
    pub(super) stats: Vec<(&'static str, Reduction, Tensor)>,
    pub(super) errors: Option<Tensor>,
    pub(super) noise: Option<Stream>,
}

/// Exchanges statistics and TD errors with the other learners. Returns the pieces of all learners, without gradients;
/// the first of them has the TD errors of all rows.
pub(super) fn share_reports(together: &Together, own: Vec<Piece>, pieces: usize) -> Result<Vec<Piece>> {
    let numbers = |tensor: &Tensor| tensor.to_kind(Kind::Double).contiguous();
    let told: Vec<f64> = own
        .iter()
        .flat_map(|piece| piece.stats.iter().flat_map(|(.., stat)| read(&numbers(stat)).to_vec()))
        .collect();
    let errors: Option<Vec<f32>> = own.iter().try_fold(Vec::new(), |mut all, piece| {
        all.extend_from_slice(read(piece.errors.as_ref()?));
        Some(all)
    });
    let like = &own[0].stats;
    let mut told = together.gather(&told)?.into_iter().flatten();
    let mut piece = || {
        let stats = like.iter().map(|(name, join, stat)| {
            let numbers: Vec<f64> = told.by_ref().take(stat.numel()).collect();
            (*name, *join, Tensor::from_slice(&numbers).view_as(stat).to_kind(stat.kind()))
        });
        Piece { gradient: Tensor::new(), stats: stats.collect(), errors: None, noise: None }
    };
    let mut pieces: Vec<Piece> = (0..pieces).map(|_| piece()).collect();
    if let Some(errors) = errors {
        let of_all: Vec<f32> = together.gather(&errors)?.into_iter().flatten().collect();
        pieces[0].errors = Some(Tensor::from_slice(&of_all));
    }
    Ok(pieces)
}

/// A statistic of one piece: one number, or for an explained variance the five sums that [`explained`] takes.
pub(super) fn of_piece(graph: &TorchGraph<'_>, stat: &Stat<'_>) -> Result<Tensor> {
    let value = graph.tensor(stat.of[0].id()).detach();
    Ok(match stat.join {
        Reduction::Mean if value.dim() > 0 => return Err(not_a_number(stat.name, value.size()[1] as usize)),
        Reduction::Mean => value.to_kind(Kind::Float),
        Reduction::Min => value.min(),
        Reduction::Max => value.max(),
        Reduction::ExplainedVariance => {
            let found = graph.tensor(stat.of[1].id()).detach().to_kind(Kind::Double);
            let wanted = value.to_kind(Kind::Double);
            let off = &wanted - found;
            let sum = |x: &Tensor| x.sum(Kind::Double);
            let sums = [wanted.ones_like(), wanted.shallow_clone(), wanted.square(), off.square(), off];
            let [n, w, ww, dd, d] = sums.map(|x| sum(&x));
            Tensor::stack(&[n, w, ww, d, dd], 0)
        }
    })
}

/// Joins the statistics of the pieces to those of all rows, on the device. `shares` are the pieces' shares of the rows.
pub(super) fn join(pieces: &[Piece], shares: &[f32], device: Device) -> Stats {
    let names: Vec<&'static str> = pieces[0].stats.iter().map(|(name, ..)| *name).collect();
    let shares = Tensor::from_slice(shares).to_device(device);
    let joined: Vec<Tensor> = (0..names.len())
        .map(|i| {
            let join = pieces[0].stats[i].1;
            let all: Vec<&Tensor> = pieces.iter().map(|piece| &piece.stats[i].2).collect();
            let all = Tensor::stack(&all, 0);
            match join {
                Reduction::Mean if pieces.len() == 1 => all.get(0),
                Reduction::Mean => all.dot(&shares),
                Reduction::Min => all.min(),
                Reduction::Max => all.max(),
                Reduction::ExplainedVariance => explained(&all.sum_dim_intlist(0, false, Kind::Double)),
            }
        })
        .collect();
    let ratios = pieces[0].stats.iter().filter(|(_, join, _)| *join == Reduction::ExplainedVariance);
    let undefined = ratios.map(|(name, ..)| *name);
    if joined.is_empty() {
        return Stats::default();
    }
    Stats::unread(names, Tensor::stack(&joined, 0)).undefined(undefined)
}

/// The explained variance as [`explained`](crate::loss::explained) computes it, with tensors on the device.
fn explained(sums: &Tensor) -> Tensor {
    let [rows, w, ww, d, dd] = [0, 1, 2, 3, 4].map(|i| sums.get(i));
    let variance = |sum: Tensor, squares: Tensor| (squares - sum.square() / &rows) / &rows;
    let wanted = variance(w, ww.shallow_clone());
    let equal = wanted.le_tensor(&(ww / &rows * EQUAL));
    ((variance(d, dd) / wanted) * -1.0 + 1.0).masked_fill(&equal, f64::NAN).to_kind(Kind::Float)
}
